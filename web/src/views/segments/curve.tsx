// Wasted memory over the whole recording, with a scrubber: a press or a drag moves the moment.

import { useRef } from "preact/hooks";
import type { FragmentationCurve } from "../../api/types.gen";
import { axisUntil, plainAxis, positionOf, secondsAt, type TimeAxis } from "../../base/axis";
import { formatBytes, formatShare } from "../../base/bytes";
import type { Inks } from "../../base/colours";
import { formatSeconds } from "../../base/seconds";
import { cursor, go, secondsField } from "../../model/address";
import { device, subject } from "../../model/recording";
import { useAnswer } from "../../model/use_answer";
import { useTimeline } from "../../render/moments";
import type { Pen, Size } from "../../render/pen";
import { Picture } from "../../render/picture";
import { hideTip, showTip, TipRows } from "../../render/tooltip";
import { nearest } from "./curve_points";

type Point = FragmentationCurve["points"][number];

/** As the strip above it. */
const SIDE = 8;
const TOP = 16;

export function Curve({ seconds }: { seconds: number }) {
  const answer = useAnswer(() => {
    const about = subject.value;
    if (!about || device.value?.reserved_peak === null) return null;
    const { trace, device: name, revision } = about;
    return { path: "fragmentation", query: { trace, device: name }, revision };
  });
  const timeline = useTimeline().value.value;
  const about = subject.value;
  const found = answer.value.value;
  if (!about || !found || found.points.length === 0) return null;
  const at = typeof cursor.value === "number" ? cursor.value : seconds;
  const axis = timeline ? axisUntil(timeline.axis, about.seconds) : plainAxis(about.seconds);
  return <Scrubber points={found.points} length={about.seconds} axis={axis} at={at} />;
}

interface ScrubberProps {
  readonly points: readonly Point[];
  /** How long the recording is. */
  readonly length: number;
  /** That of the strip, so that a time is at the same place in both. */
  readonly axis: TimeAxis;
  readonly at: number;
}

function Scrubber({ points, length, axis, at }: ScrubberProps) {
  const size = useRef<Size>({ width: 1, height: 1 });
  const isDragged = useRef(false);
  const here = nearest(points, at);
  const timeOf = (x: number) => {
    const share = (x - SIDE) / Math.max(1, size.current.width - 2 * SIDE);
    return Math.min(length, Math.max(0, secondsAt(axis.knots, share * axis.length)));
  };
  const move = (seconds: number) => go({ at: secondsField(seconds) }, { replaces: true });
  const step = (by: number) => {
    const next = points[Math.min(points.length - 1, Math.max(0, here + by))];
    if (next) move(next.seconds);
  };
  const said = sentence(points[here]);
  return (
    <div
      class="segments-curve"
      role="slider"
      tabIndex={0}
      aria-label="Time of the segments"
      aria-valuemin={0}
      aria-valuemax={length}
      aria-valuenow={at}
      aria-valuetext={`${formatSeconds(at)}: ${said}`}
      data-own-keys
      onKeyDown={(event) => {
        const by = KEYS[event.key];
        if (by === undefined) return;
        event.preventDefault();
        step(by);
      }}
    >
      <Picture
        name="fragmentation"
        label={`Wasted bytes over time; at ${formatSeconds(at)} ${said}`}
        hasNoMenu
        isPart
        draw={(pen, now, inks) => {
          size.current = now;
          drawCurve(pen, now, inks, points, axis, at);
        }}
        on={{
          onPointerDown: (event) => {
            (event.currentTarget as Element).setPointerCapture(event.pointerId);
            isDragged.current = true;
            move(timeOf(event.offsetX));
          },
          onPointerMove: (event) => {
            const time = timeOf(event.offsetX);
            if (isDragged.current) move(time);
            const point = points[nearest(points, time)];
            if (point) showTip(event.clientX, event.clientY, <Tip point={point} />);
          },
          onPointerUp: () => {
            isDragged.current = false;
          },
          onPointerLeave: hideTip,
        }}
      />
    </div>
  );
}

const KEYS: Readonly<Record<string, number>> = {
  ArrowLeft: -1,
  ArrowRight: 1,
  PageUp: 20,
  PageDown: -20,
  Home: Number.NEGATIVE_INFINITY,
  End: Number.POSITIVE_INFINITY,
};

function sentence(point: Point | undefined): string {
  if (!point) return "nothing is reserved";
  return `${formatBytes(point.free + point.rounding)} of ${formatBytes(point.reserved)} reserved are wasted`;
}

function Tip({ point }: { point: Point }) {
  const share = (bytes: number) => `${formatBytes(bytes)} ${formatShare(bytes, point.reserved)}`;
  return (
    <>
      <p class="title">{formatSeconds(point.seconds)}</p>
      <TipRows
        rows={[
          ["Reserved", formatBytes(point.reserved)],
          ["Free", share(point.free)],
          ["Unusable", share(point.unusable)],
          ["Split", share(point.split)],
          ["Rounding", share(point.rounding)],
          ["Largest free block", formatBytes(point.largest_free)],
        ]}
      />
      <p class="quiet">Drag to move the time</p>
    </>
  );
}

/** From the ground up: rounding, free blocks that are unusable, other free blocks. */
export function drawCurve(
  pen: Pen,
  size: Size,
  inks: Inks,
  points: readonly Point[],
  axis: TimeAxis,
  at: number,
): void {
  const [width, height] = [size.width - 2 * SIDE, size.height - TOP - 2];
  const most = Math.max(1, ...points.map((point) => point.free + point.rounding));
  const end = Math.max(axis.length, 1e-9);
  const x = (seconds: number) => SIDE + (positionOf(axis.knots, seconds) / end) * width;
  const y = (bytes: number) => TOP + height * (1 - bytes / most);
  pen.rect(SIDE, TOP, width, height, inks.free);
  const layers: [(point: Point) => number, string][] = [
    [(point) => point.rounding + point.free, inks.freeFill],
    [(point) => point.rounding + point.unusable, inks.grew],
    [(point) => point.rounding, inks.fill],
  ];
  for (const [bytes, colour] of layers) {
    const outline: number[] = [];
    points.forEach((point, index) => {
      const after = points[index + 1];
      const next = after ? x(after.seconds) : SIDE + width;
      outline.push(x(point.seconds), y(bytes(point)), next, y(bytes(point)));
    });
    outline.push(SIDE + width, y(0), x(points[0]?.seconds ?? 0), y(0));
    pen.area(outline, colour);
  }
  drawLegend(pen, size, inks, most);
  const line = Math.round(x(at)) + 0.5;
  pen.line([line, TOP - 2, line, size.height], { stroke: inks.ink, width: 1.5 });
  pen.area([line - 5, TOP - 2, line + 5, TOP - 2, line, TOP + 5], inks.ink);
}

function drawLegend(pen: Pen, size: Size, inks: Inks, most: number): void {
  let x = SIDE;
  const say = (text: string, colour: string) => {
    pen.rect(x, 3, 10, 9, colour);
    pen.text(x + 14, 11, text, { fill: inks.quiet, size: 11 });
    x += 14 + pen.measure(text, 11) + 14;
  };
  say("free", inks.freeFill);
  say("unusable", inks.grew);
  say("rounding", inks.fill);
  pen.text(size.width - SIDE, 11, `wasted, at most ${formatBytes(most)}`, {
    fill: inks.quiet,
    align: "end",
    size: 11,
  });
}
