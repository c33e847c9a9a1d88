// Lifetimes as bars from when a tensor was made to when it was let go of, a group of lanes for each module.

import type { Bands, Lifetimes } from "../../api/types.gen";
import { counted, formatBytes } from "../../base/bytes";
import { groupColour, type Inks, readableOn } from "../../base/colours";
import { type Box, drawTimeAxis, type Scale, TIME_AXIS_HEIGHT, toPixel } from "../../render/axes";
import { hatch } from "../../render/hatch";
import { fitted, type Pen, type Size } from "../../render/pen";
import type { Lanes, Life, LifeBar, ModuleLanes } from "./lanes";

export type Tensor = Lifetimes["rows"][number]["tensors"][number] & Pick<Life, "count">;

export interface TensorPicture {
  readonly layout: Lanes<Tensor>;
  readonly bands: Bands | null;
  readonly window: { readonly from: number; readonly to: number };
  readonly top: number;
  /** The tensor under the pointer or the keys, and the one whose card is open. */
  readonly pointed: number | null;
  readonly chosen: number | null;
}

const GUTTER = 232;
const RIGHT = 12;
/** Names of phases, above the lanes. */
export const HEAD_HEIGHT = 20;

/** The part of the picture that has lanes. */
export function plotOf(size: Size): Box {
  return {
    x: GUTTER,
    y: HEAD_HEIGHT,
    width: Math.max(1, size.width - GUTTER - RIGHT),
    height: Math.max(1, size.height - HEAD_HEIGHT - TIME_AXIS_HEIGHT),
  };
}

export function scaleOf(picture: Pick<TensorPicture, "window">, size: Size): Scale {
  const plot = plotOf(size);
  return { ...picture.window, start: plot.x, length: plot.width };
}

export function drawTensors(pen: Pen, size: Size, inks: Inks, picture: TensorPicture): void {
  const plot = plotOf(size);
  const scale = scaleOf(picture, size);
  if (picture.bands) drawPhases(pen, plot, inks, picture.bands, scale);
  pen.clipped(0, plot.y, size.width, plot.height, () => {
    for (const module of picture.layout.modules) {
      const y = plot.y + module.y - picture.top;
      if (y > plot.y + plot.height) break;
      if (y + module.height < plot.y) continue;
      drawName(pen, inks, module, y, size.width);
      pen.clipped(plot.x, plot.y, plot.width, plot.height, () => {
        for (const bar of module.bars) drawBar(pen, inks, picture, bar, scale, plot);
      });
    }
  });
  const bottom = plot.y + plot.height + 0.5;
  pen.line([plot.x, bottom, plot.x + plot.width, bottom], { stroke: inks.edge });
  drawTimeAxis(pen, plot, picture.window.from, picture.window.to, inks);
}

/** Phases lie behind everything; every other one is tinted, so that colours of categories stay what they are. */
function drawPhases(pen: Pen, plot: Box, inks: Inks, bands: Bands, scale: Scale): void {
  let end = Number.NEGATIVE_INFINITY;
  bands.stretches.forEach((stretch, place) => {
    const from = Math.max(plot.x, toPixel(scale, stretch.from));
    const to = Math.min(plot.x + plot.width, toPixel(scale, stretch.to));
    if (to <= from || to < end + 1) return;
    end = to;
    if (place % 2 === 0) pen.rect(from, 0, to - from, plot.y + plot.height, inks.raised);
    const name = to - from > 24 ? fitted(pen, stretch.name, to - from - 8, 11) : "";
    if (name) pen.text(from + 4, 14, name, { fill: inks.quiet, size: 11 });
  });
}

function drawName(
  pen: Pen,
  inks: Inks,
  module: ModuleLanes<Tensor>,
  y: number,
  width: number,
): void {
  const line = Math.round(y + module.height) - 0.5;
  pen.line([0, line, width, line], { stroke: inks.grid });
  const bytes = formatBytes(module.bytes);
  const room = GUTTER - 24 - pen.measure(bytes, 11);
  const name = module.module || "outside modules";
  pen.text(8, y + 14, fitted(pen, name, room, 12, "end"), {
    fill: module.module ? inks.ink : inks.quiet,
  });
  pen.text(GUTTER - 10, y + 14, bytes, { fill: inks.quiet, align: "end", size: 11 });
  if (module.height > 36)
    pen.text(8, y + 29, counted(module.count, "tensor"), { fill: inks.quiet, size: 11 });
}

function drawBar(
  pen: Pen,
  inks: Inks,
  picture: TensorPicture,
  bar: LifeBar<Tensor>,
  scale: Scale,
  plot: Box,
): void {
  const { tensor } = bar;
  const y = plot.y + bar.y - picture.top;
  const from = Math.max(plot.x - 4, toPixel(scale, bar.from));
  const to = Math.min(plot.x + plot.width + 4, toPixel(scale, bar.to));
  if (to < plot.x - 2 || from > plot.x + plot.width) return;
  const width = Math.max(1.5, to - from);
  const colour = groupColour(inks, tensor.category, 0);
  pen.rect(from, y, width, bar.height, colour);
  const kept = tensor.saved ? toPixel(scale, tensor.kept_until ?? bar.to) : from;
  if (kept > from + 2)
    hatch(
      pen,
      from,
      y,
      Math.min(kept, to) - from,
      bar.height,
      readableOn(colour) === "#ffffff" ? "#ffffff66" : "#00000040",
      5,
    );
  drawLabel(pen, tensor, { x: from, y, width, height: bar.height }, plot, colour);
  const isMarked = tensor.id === picture.pointed || tensor.id === picture.chosen;
  if (isMarked) pen.outline(from, y, width, bar.height, { stroke: inks.ink, width: 2 });
}

function drawLabel(pen: Pen, tensor: Tensor, bar: Box, plot: Box, colour: string): void {
  const left = Math.max(bar.x, plot.x) + 4;
  const room = Math.min(bar.x + bar.width, plot.x + plot.width) - 4 - left;
  if (bar.height < 12 || room < 40) return;
  const text = fitted(
    pen,
    `${tensor.name ?? tensor.category} ${formatBytes(tensor.bytes)}`,
    room,
    10,
  );
  if (!text) return;
  // The ground under the letters keeps hatched bars readable.
  pen.rect(left - 2, bar.y + 1, pen.measure(text, 10) + 4, bar.height - 2, colour);
  pen.text(left, bar.y + bar.height / 2 + 0.5, text, {
    fill: readableOn(colour),
    baseline: "middle",
    size: 10,
  });
}
