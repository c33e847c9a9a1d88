// Draws the curve of wasted memory on the axis of the strip above it.

import type { FragmentationCurve } from "../../api/types.gen";
import { positionOf, secondsAt, type TimeAxis } from "../../base/axis";
import { formatBytes } from "../../base/bytes";
import type { Inks } from "../../base/colours";
import { cursorHead } from "../../render/cursor_mark";
import type { Pen, Size } from "../../render/pen";

type Point = FragmentationCurve["points"][number];

/** The margin of the strip above. */
const SIDE = 8;
const TOP = 16;

/** The position of a time in a picture of this width. */
export function curveX(axis: TimeAxis, width: number, seconds: number): number {
  const share = positionOf(axis.knots, seconds) / Math.max(axis.length, 1e-9);
  return SIDE + share * (width - 2 * SIDE);
}

/** The time at a position. */
export function curveTime(axis: TimeAxis, width: number, x: number): number {
  const share = (x - SIDE) / Math.max(1, width - 2 * SIDE);
  return secondsAt(axis.knots, share * axis.length);
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
  const x = (seconds: number) => curveX(axis, size.width, seconds);
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
  const { left, right } = cursorHead(line, { x: SIDE, width });
  pen.area([left, TOP - 2, right, TOP - 2, line, TOP + 5], inks.ink);
}

function drawLegend(pen: Pen, size: Size, inks: Inks, most: number): void {
  let x = SIDE;
  const say = (text: string, colour: string) => {
    pen.rect(x, 3, 10, 9, colour);
    pen.text(x + 14, 11, text, { fill: inks.quiet, size: 11 });
    x += 14 + pen.measure(text, 11) + 14;
  };
  say("usable free blocks", inks.freeFill);
  say("unusable free blocks", inks.grew);
  say("rounding", inks.fill);
  const figures = `wasted, at most ${formatBytes(most)}`;
  // Without space beside the names, the text is inside the picture.
  const room = pen.measure(figures, 11);
  const isBeside = x + room <= size.width - SIDE;
  if (!isBeside) pen.rect(size.width - SIDE - room - 8, TOP + 1, room + 8, 15, `${inks.panel}d8`);
  pen.text(size.width - SIDE - (isBeside ? 0 : 4), isBeside ? 11 : TOP + 12, figures, {
    fill: isBeside ? inks.quiet : inks.ink,
    align: "end",
    size: 11,
  });
}
