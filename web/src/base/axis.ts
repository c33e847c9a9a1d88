// Converts between times and positions of a picture over time, linearly between the knots of an
// axis.

import { formatTimeTick } from "./seconds";
import { multiples, timeTicks } from "./ticks";

export interface Knot {
  readonly seconds: number;
  readonly position: number;
}

/** A part of an axis, or of a recording. */
interface Span {
  readonly from: number;
  readonly to: number;
}

/** The axis of a picture over time, as the timeline's answer has it. */
export interface TimeAxis {
  readonly by: "time" | "events" | "steps";
  /** The position of the end. */
  readonly length: number;
  readonly knots: readonly Knot[];
  /** Idle intervals that the axis shortens, in seconds. */
  readonly breaks: readonly Span[];
}

/** A linear time axis. */
export function plainAxis(seconds: number): TimeAxis {
  const knots = [
    { seconds: 0, position: 0 },
    { seconds, position: seconds },
  ];
  return { by: "time", length: seconds, knots, breaks: [] };
}

/** The same axis for a recording that has grown, extended with the slope at its end. */
export function axisUntil(axis: TimeAxis, seconds: number): TimeAxis {
  return { ...axis, length: positionOf(axis.knots, seconds) };
}

/** The position of a time. */
export function positionOf(knots: readonly Knot[], seconds: number): number {
  return between(knots, seconds, "seconds", "position");
}

/** The time at a position. */
export function secondsAt(knots: readonly Knot[], position: number): number {
  return between(knots, position, "position", "seconds");
}

/** The positions of the two ends of an interval. */
export function positionsOf(knots: readonly Knot[], { from, to }: Span): Span {
  return { from: positionOf(knots, from), to: positionOf(knots, to) };
}

/** The times between two positions. */
export function timesBetween(knots: readonly Knot[], { from, to }: Span): Span {
  return { from: secondsAt(knots, from), to: secondsAt(knots, to) };
}

/** The last microsecond before a position: the end of the column that ends there. */
export function lastTimeBefore(knots: readonly Knot[], position: number): number {
  const micros = Math.ceil(secondsAt(knots, position) * 1e6 - 1e-3);
  return Math.max(0, micros - 1) / 1e6;
}

export interface AxisTick {
  readonly position: number;
  readonly text: string;
}

/**
 * The ticks of an axis between two positions, at most about `most`. Events after the last of
 * `steps` belong to no step.
 */
export function axisTicks(
  axis: TimeAxis,
  span: Span,
  most: number,
  steps = Number.POSITIVE_INFINITY,
): AxisTick[] {
  if (axis.by !== "time")
    return countTicks(axis.by, span, most).filter(
      (tick) => axis.by === "events" || tick.position < steps,
    );
  const shown = timesBetween(axis.knots, span);
  const isIdle = axis.breaks.some(({ from, to }) => from <= shown.from && shown.to <= to);
  const { step } = isIdle
    ? timeTicks(shown.from, shown.to, most)
    : timeTicks(span.from, span.to, most);
  const stretches = isIdle ? [shown] : betweenBreaks(axis.breaks, shown);
  return stretches.flatMap(({ from, to }) =>
    multiples(from, to, step).map((seconds) => ({
      position: positionOf(axis.knots, seconds),
      text: formatTimeTick(seconds, step),
    })),
  );
}

function countTicks(by: "events" | "steps", span: Span, most: number): AxisTick[] {
  const { step, at } = timeTicks(span.from, span.to, most);
  // Less than one step gets a tick at a fraction of a step; events only get whole numbers.
  const least = by === "events" || span.to - span.from >= 1 ? 1 : 0;
  const all = step < least ? multiples(span.from, span.to, least) : at;
  return all.map((position) => {
    const count = Number(position.toFixed(6)).toLocaleString("en-US", { maximumFractionDigits: 6 });
    return { position, text: by === "steps" ? `step ${count}` : count };
  });
}

/** The parts of an interval that are not idle. */
function betweenBreaks(breaks: readonly Span[], shown: Span): Span[] {
  const found: Span[] = [];
  let from = shown.from;
  for (const idle of breaks) {
    if (idle.to <= shown.from || idle.from >= shown.to) continue;
    if (idle.from > from) found.push({ from, to: idle.from });
    from = Math.max(from, idle.to);
  }
  if (shown.to > from) found.push({ from, to: shown.to });
  return found;
}

function between(
  knots: readonly Knot[],
  value: number,
  from: "seconds" | "position",
  to: "seconds" | "position",
): number {
  let low = 0;
  let high = knots.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((knots[middle] as Knot)[from] <= value) low = middle + 1;
    else high = middle;
  }
  // Beyond the ends, extend with the slope of the last segment.
  const after = Math.min(Math.max(low, 1), knots.length - 1);
  const [one, other] = [knots[after - 1], knots[after]];
  if (!one || !other) return value;
  const length = other[from] - one[from];
  if (length <= 0) return one[to];
  return one[to] + ((value - one[from]) / length) * (other[to] - one[to]);
}
