// Axes of time and of bytes, and where things lie between them.

import { formatTick } from "../base/bytes";
import type { Inks } from "../base/colours";
import { formatTimeTick } from "../base/seconds";
import { byteTicks, timeTicks } from "../base/ticks";
import type { Pen } from "./pen";

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** A straight way from values to pixels. */
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

/** Room that the labels of a byte axis need at its left. */
export const BYTE_AXIS_WIDTH = 72;
/** Room that the labels of a time axis need below it. */
export const TIME_AXIS_HEIGHT = 24;

/** Lines and labels of bytes, 0 at the bottom of the box. */
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

/** Lines and labels of time. */
export function drawTimeAxis(pen: Pen, box: Box, from: number, to: number, inks: Inks): void {
  const ticks = timeTicks(from, to, Math.max(2, Math.floor(box.width / 96)));
  const scale = { from, to, start: box.x, length: box.width };
  for (const seconds of ticks.at) {
    const x = Math.round(toPixel(scale, seconds)) + 0.5;
    const text = formatTimeTick(seconds, ticks.step);
    const half = pen.measure(text) / 2;
    pen.line([x, box.y + box.height, x, box.y + box.height + 4], { stroke: inks.edge });
    const middle = Math.min(Math.max(x, box.x + half), box.x + box.width - half);
    pen.text(middle, box.y + box.height + 17, text, { fill: inks.quiet, align: "middle" });
  }
}
