// Ranks as bars, with a line at the median.

import { formatBytes } from "../../base/bytes";
import type { Inks } from "../../base/colours";
import { type Box, BYTE_AXIS_WIDTH, drawByteAxis } from "../../render/axes";
import { fitted, type Pen, type Size } from "../../render/pen";
import type { RankBar } from "./bars";

export interface RankPicture {
  readonly bars: readonly RankBar[];
  /** By index in the answer. */
  readonly names: readonly string[];
  readonly reserved: readonly (number | null)[];
  readonly median: number | null;
  /** The name of the bars' value. */
  readonly title: string;
  readonly chosen: number | null;
}

const TOP = 30;
const RIGHT = 12;
const BOTTOM = 24;

export function rankPlot(size: Size): { x: number; width: number } {
  return { x: BYTE_AXIS_WIDTH, width: Math.max(1, size.width - BYTE_AXIS_WIDTH - RIGHT) };
}

export function rankAt(picture: RankPicture, size: Size, x: number): number | null {
  const plot = rankPlot(size);
  const at = Math.floor(((x - plot.x) / plot.width) * picture.bars.length);
  return at >= 0 && at < picture.bars.length ? at : null;
}

export function drawRanks(pen: Pen, size: Size, inks: Inks, picture: RankPicture): void {
  const box: Box = { ...rankPlot(size), y: TOP, height: size.height - TOP - BOTTOM };
  const reservedOf = (bar: RankBar) => picture.reserved[bar.shown] ?? 0;
  const tops = picture.bars.map((bar) => Math.max(bar.peak, reservedOf(bar)));
  const highest = 1.05 * Math.max(1, ...tops);
  const y = (bytes: number) => box.y + box.height * (1 - bytes / highest);
  const pitch = box.width / Math.max(1, picture.bars.length);
  const width = Math.min(90, pitch > 8 ? pitch * 0.78 : pitch > 3 ? pitch - 1 : pitch);
  if (picture.chosen !== null)
    pen.rect(box.x + picture.chosen * pitch, box.y, pitch, box.height, inks.chosen);
  drawByteAxis(pen, box, highest, inks);
  picture.bars.forEach((bar, at) => {
    const x = box.x + at * pitch + (pitch - width) / 2;
    const colour = bar.isOutlier ? inks.grew : (inks.groups[0] ?? inks.accent);
    const reserved = reservedOf(bar);
    if (reserved > 0)
      pen.outline(x + 0.5, y(reserved), width - 1, y(0) - y(reserved), { stroke: inks.reserved });
    pen.rect(x, y(bar.peak), width, y(0) - y(bar.peak), colour);
    if (bar.isOutlier)
      pen.text(x + width / 2, y(Math.max(reserved, bar.peak)) - 5, "!", {
        fill: inks.grew,
        align: "middle",
        isBold: true,
        size: 14,
      });
    drawName(pen, inks, picture.names[bar.shown] ?? "", box.x + (at + 0.5) * pitch, box, pitch, at);
  });
  const under = picture.names.every((name) => /^rank \d+$/.test(name)) ? "rank" : "recording";
  pen.text(box.x - 8, box.y + box.height + 16, under, { fill: inks.quiet, align: "end" });
  drawMedian(pen, inks, box, picture.median, y);
  drawLegend(pen, inks, picture, box);
}

function drawName(
  pen: Pen,
  inks: Inks,
  name: string,
  x: number,
  box: Box,
  pitch: number,
  at: number,
): void {
  const short = name.replace(/^rank (?=\d+$)/, "");
  const room = Math.max(34, pitch - 6);
  if (at % Math.max(1, Math.ceil(38 / pitch)) !== 0) return;
  pen.text(x, box.y + box.height + 16, fitted(pen, short, room), {
    fill: inks.quiet,
    align: "middle",
  });
}

function drawMedian(
  pen: Pen,
  inks: Inks,
  box: Box,
  median: number | null,
  y: (bytes: number) => number,
): void {
  if (median === null) return;
  const at = Math.round(y(median)) + 0.5;
  pen.line([box.x, at, box.x + box.width, at], { stroke: inks.ink, dash: [6, 4], width: 1.5 });
}

function drawLegend(pen: Pen, inks: Inks, picture: RankPicture, box: Box): void {
  let x = box.x;
  const entry = (text: string, mark: (x: number) => void) => {
    mark(x);
    pen.text(x + 20, box.y - 11, text, { fill: inks.quiet });
    x += 20 + pen.measure(text) + 20;
  };
  const y = box.y - 20;
  entry(picture.title, (at) => pen.rect(at, y, 12, 10, inks.groups[0] ?? inks.accent));
  if (picture.reserved.some((bytes) => bytes !== null))
    entry("reserved peak", (at) =>
      pen.outline(at + 0.5, y + 0.5, 12, 9, { stroke: inks.reserved }),
    );
  if (picture.bars.some((bar) => bar.isOutlier))
    entry("! stands out", (at) => pen.rect(at, y, 12, 10, inks.grew));
  if (picture.median !== null)
    entry(`median ${formatBytes(picture.median)}`, (at) =>
      pen.line([at, y + 5, at + 14, y + 5], { stroke: inks.ink, dash: [6, 4], width: 1.5 }),
    );
}
