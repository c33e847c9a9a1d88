// Draws axes of time and bytes, and converts values to pixels.

import { type AxisTick, axisTicks, plainAxis, positionsOf, type TimeAxis } from "../base/axis";
import { formatTick } from "../base/bytes";
import type { Inks } from "../base/colours";
import { formatDuration } from "../base/seconds";
import { byteTicks } from "../base/ticks";
import type { Pen } from "./pen";

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** A linear map from values to pixels. */
export interface Scale {
  readonly from: number;
  readonly to: number;
  readonly start: number;
  readonly length: number;
}

export function toPixel(scale: Scale, value: number): number {
  return scale.start + ((value - scale.from) / (scale.to - scale.from)) * scale.length;
}

export function toValue(scale: Scale, pixel: number): number {
  return scale.from + ((pixel - scale.start) / scale.length) * (scale.to - scale.from);
}

/** The width of a byte axis with its labels. */
export const BYTE_AXIS_WIDTH = 72;
/** The height of a time axis with its labels. */
export const TIME_AXIS_HEIGHT = 24;

/** Draws grid lines and labels of bytes, with 0 at the bottom of the box. */
export function drawByteAxis(pen: Pen, box: Box, highest: number, inks: Inks): void {
  const ticks = byteTicks(highest, Math.max(2, Math.floor(box.height / 48)));
  for (const bytes of ticks.at) {
    const y = Math.round(box.y + box.height * (1 - bytes / highest)) + 0.5;
    pen.line([box.x, y, box.x + box.width, y], { stroke: bytes === 0 ? inks.edge : inks.grid });
    pen.text(box.x - 8, y, formatTick(bytes), {
      fill: inks.quiet,
      align: "end",
      baseline: "middle",
    });
  }
}

/** Draws ticks and labels of a linear time axis. */
export function drawTimeAxis(pen: Pen, box: Box, from: number, to: number, inks: Inks): void {
  drawAxis(pen, box, plainAxis(to), { from, to }, inks);
}

/**
 * Draws ticks and labels of an axis between two positions, and the durations of shortened idle
 * intervals.
 */
export function drawAxis(
  pen: Pen,
  box: Box,
  axis: TimeAxis,
  span: { readonly from: number; readonly to: number },
  inks: Inks,
  steps?: number,
): void {
  const scale = { ...span, start: box.x, length: box.width };
  const taken: [number, number][] = [];
  for (const idle of axis.breaks) {
    const { from, to } = positionsOf(axis.knots, idle);
    const text = `${formatDuration(idle.to - idle.from)} idle`;
    const x = (toPixel(scale, from) + toPixel(scale, to)) / 2;
    // The label of a second close interval follows the first one.
    const free = Math.max(0, ...taken.map(([, end]) => end)) + pen.measure(text) / 2 + 6;
    if (x >= box.x && x <= box.x + box.width)
      label(pen, box, Math.max(x, free), text, inks.ink, taken);
  }
  if (axis.by === "events")
    pen.text(box.x - 8, box.y + box.height + 17, "event", { fill: inks.quiet, align: "end" });
  for (const tick of axisTicks(axis, span, Math.max(2, Math.floor(box.width / 96)), steps))
    drawTick(pen, box, toPixel(scale, tick.position), tick, inks, taken);
}

function drawTick(
  pen: Pen,
  box: Box,
  at: number,
  tick: AxisTick,
  inks: Inks,
  taken: [number, number][],
): void {
  const x = Math.round(at) + 0.5;
  pen.line([x, box.y + box.height, x, box.y + box.height + 4], { stroke: inks.edge });
  label(pen, box, x, tick.text, inks.quiet, taken);
}

/** Draws a label under an axis, unless it would overlap the previous one. */
function label(
  pen: Pen,
  box: Box,
  x: number,
  text: string,
  fill: string,
  taken: [number, number][],
): void {
  const half = pen.measure(text) / 2;
  const middle = Math.min(Math.max(x, box.x + half), box.x + box.width - half);
  const [from, to] = [middle - half - 6, middle + half + 6];
  if (taken.some(([start, end]) => from < end && to > start)) return;
  taken.push([from, to]);
  pen.text(middle, box.y + box.height + 17, text, { fill, align: "middle" });
}

/** The height and width of a tooth of a torn edge. */
const TOOTH = 6;
const BITE = 3;

/** Draws torn edges at shortened idle intervals. */
export function drawBreaks(
  pen: Pen,
  box: Box,
  axis: TimeAxis,
  span: { readonly from: number; readonly to: number },
  inks: Inks,
): void {
  const scale = { ...span, start: box.x, length: box.width };
  for (const idle of axis.breaks) {
    const ends = positionsOf(axis.knots, idle);
    if (ends.to < span.from || ends.from > span.to) continue;
    const [from, to] = [toPixel(scale, ends.from), toPixel(scale, ends.to)];
    const [left, right] = [torn(from, box), torn(Math.max(to, from + BITE), box)];
    const back: number[] = [];
    for (let at = right.length - 2; at >= 0; at -= 2) back.push(right[at] ?? 0, right[at + 1] ?? 0);
    pen.area([...left, ...back], `${inks.panel}c8`);
    for (const edge of [left, right]) pen.line(edge, { stroke: inks.quiet, width: 1 });
  }
}

function torn(x: number, box: Box): number[] {
  const points: number[] = [];
  const bottom = box.y + box.height;
  let side = -BITE / 2;
  for (let y = box.y; y < bottom; y += TOOTH) {
    points.push(x + side, y);
    side = -side;
  }
  points.push(x + side, bottom);
  return points;
}
