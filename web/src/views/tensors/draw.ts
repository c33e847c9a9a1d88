// Lifetimes as bars from the allocation of a tensor to its free, a group of lanes for each module.

import type { Bands, Lifetimes } from "../../api/types.gen";
import { positionOf, positionsOf, secondsAt, type TimeAxis } from "../../base/axis";
import { counted, formatBytes } from "../../base/bytes";
import { groupColour, type Inks, phaseGrey, readableOn } from "../../base/colours";
import {
  type Box,
  drawAxis,
  drawBreaks,
  TIME_AXIS_HEIGHT,
  toPixel,
  toValue,
} from "../../render/axes";
import { hatch } from "../../render/hatch";
import { fitted, type Pen, type Size } from "../../render/pen";
import type { Lanes, Life, LifeBar, ModuleLanes } from "./lanes";

export type Tensor = Lifetimes["rows"][number]["tensors"][number] & Pick<Life, "count">;

export interface TensorPicture {
  readonly layout: Lanes<Tensor>;
  readonly bands: Bands | null;
  readonly window: { readonly from: number; readonly to: number };
  /** Idle intervals are shortened, as in the timeline. */
  readonly axis: TimeAxis;
  readonly top: number;
  /** The tensor under the pointer or the keys, and the one whose card is open. */
  readonly pointed: number | null;
  readonly chosen: number | null;
}

const GUTTER = 244;
/** The width for the menu that saves the picture, beside the plot. */
const RIGHT = 38;
/** The opacity of a phase behind the lanes. */
const PHASE_ALPHA = "16";
/** The height of the phase names above the lanes. */
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

/** Converts times to positions in the picture and back. */
export interface TimeScale {
  readonly pixel: (seconds: number) => number;
  readonly seconds: (pixel: number) => number;
}

export function scaleOf(
  { window, axis }: Pick<TensorPicture, "window" | "axis">,
  size: Size,
): TimeScale {
  const plot = plotOf(size);
  const scale = { ...positionsOf(axis.knots, window), start: plot.x, length: plot.width };
  return {
    pixel: (seconds) => toPixel(scale, positionOf(axis.knots, seconds)),
    seconds: (pixel) => secondsAt(axis.knots, toValue(scale, pixel)),
  };
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
  const along = positionsOf(picture.axis.knots, picture.window);
  pen.clipped(plot.x, plot.y, plot.width, plot.height, () =>
    drawBreaks(pen, plot, picture.axis, along, inks),
  );
  drawAxis(pen, plot, picture.axis, along, inks);
}

/** Draws the phases behind everything, in faint colours. */
function drawPhases(pen: Pen, plot: Box, inks: Inks, bands: Bands, scale: TimeScale): void {
  let end = Number.NEGATIVE_INFINITY;
  for (const stretch of bands.stretches) {
    const from = Math.max(plot.x, scale.pixel(stretch.from));
    const to = Math.min(plot.x + plot.width, scale.pixel(stretch.to));
    if (to <= from || to < end + 1) continue;
    end = to;
    const colour = phaseGrey(inks, stretch.name);
    pen.rect(from, plot.y, to - from, plot.height, `${colour}${PHASE_ALPHA}`);
    pen.rect(from, plot.y - 4, Math.max(1, to - from - 1), 3, colour);
    const name = to - from > 24 ? fitted(pen, stretch.name, to - from - 8, 11) : "";
    if (name) pen.text(from + 4, 12, name, { fill: inks.quiet, size: 11 });
  }
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
  const room = GUTTER - 36 - pen.measure(bytes, 11);
  const name = module.module || "outside modules";
  const isOpen = module.names.length > 0;
  drawSign(pen, inks, 8, y + 6, isOpen);
  pen.text(20, y + 14, fittedModule(pen, name, room), {
    fill: module.module ? inks.ink : inks.quiet,
    isBold: isOpen,
  });
  pen.text(GUTTER - 10, y + 14, bytes, { fill: inks.quiet, align: "end", size: 11 });
  if (!isOpen && module.height > 36)
    pen.text(20, y + 29, counted(module.count, "tensor"), { fill: inks.quiet, size: 11 });
  for (const lane of module.names) {
    const at = y + lane.y - module.y + 12;
    const count = lane.count > 1 ? `${lane.count} × ` : "";
    const size = `${count}${formatBytes(lane.bytes)}`;
    pen.text(GUTTER - 10, at, size, { fill: inks.quiet, align: "end", size: 11 });
    const room = GUTTER - 46 - pen.measure(size, 11);
    // Of a location, keep the file and the line; of a tensor's name, the end.
    const keeps = /:\d/.test(lane.name) ? "start" : "end";
    const left = fitted(pen, fileTail(lane.name), room, 11, keeps);
    pen.text(30, at, left, { fill: inks.quiet, size: 11 });
  }
}

/** A triangle that shows whether a module is open. */
function drawSign(pen: Pen, inks: Inks, x: number, y: number, isOpen: boolean): void {
  const points = isOpen
    ? [x, y + 1, x + 8, y + 1, x + 4, y + 7]
    : [x + 1, y, x + 1, y + 8, x + 7, y + 4];
  pen.area(points, inks.quiet);
}

/** A location without its folders; a name stays whole. */
function fileTail(name: string): string {
  return name.startsWith("/") ? name.slice(name.lastIndexOf("/", name.indexOf(":")) + 1) : name;
}

/** A module's name without its middle parts: keeps the block and the last part. */
export function fittedModule(pen: Pen, name: string, room: number): string {
  const parts = name.split(".");
  const last = parts.at(-1) ?? "";
  if (pen.measure(name) <= room || parts.length < 3) return fitted(pen, name, room, 12, "end");
  for (let kept = parts.length - 2; kept > 0; kept -= 1) {
    const text = `${parts.slice(0, kept).join(".")}.…${last}`;
    if (pen.measure(text) <= room) return text;
  }
  const head = `${parts.slice(0, 2).join(".")}.`;
  const tail = fitted(pen, last, room - pen.measure(head), 12, "end");
  return tail === "" ? fitted(pen, name, room, 12, "end") : head + tail;
}

function drawBar(
  pen: Pen,
  inks: Inks,
  picture: TensorPicture,
  bar: LifeBar<Tensor>,
  scale: TimeScale,
  plot: Box,
): void {
  const { tensor } = bar;
  const y = plot.y + bar.y - picture.top;
  const from = Math.max(plot.x - 4, scale.pixel(bar.from));
  const to = Math.min(plot.x + plot.width + 4, scale.pixel(bar.to));
  if (to < plot.x - 2 || from > plot.x + plot.width) return;
  const width = Math.max(1.5, to - from);
  const colour = groupColour(inks, tensor.category, 0);
  pen.rect(from, y, width, bar.height, colour);
  const kept = isKept(tensor) ? scale.pixel(tensor.retained_until_seconds ?? bar.to) : from;
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
  const idle = idleFrom(tensor);
  if (idle !== null)
    drawIdle(pen, inks, { x: from, y, width, height: bar.height }, scale.pixel(idle), colour);
  const isMarked = tensor.id === picture.pointed || tensor.id === picture.chosen;
  // Around the bar, not over it, so that a thin bar keeps its colour.
  if (isMarked)
    pen.outline(from - 1, y - 1, width + 2, bar.height + 2, { stroke: inks.ink, width: 2 });
}

/** Draws the bar hollow from the last known use to the free, with a tick at the use. */
function drawIdle(pen: Pen, inks: Inks, bar: Box, use: number, colour: string): void {
  const from = Math.max(bar.x, use);
  const width = bar.x + bar.width - from;
  if (width < 2 || bar.height < 4) return;
  pen.rect(from, bar.y + 1, width - 1, bar.height - 2, inks.panel);
  pen.rect(from, bar.y, 2, bar.height, inks.ink);
  if (bar.height >= 12) pen.rect(from, bar.y + bar.height / 2 - 1, width, 2, colour);
}

/** The time of a tensor's last use, if it is known and the tensor is freed later. */
export function idleFrom(tensor: Tensor): number | null {
  const { last_use_seconds: used, freed_seconds: freed } = tensor;
  return used !== null && (freed === null || freed > used) ? used : null;
}

function drawLabel(pen: Pen, tensor: Tensor, bar: Box, plot: Box, colour: string): void {
  const left = Math.max(bar.x, plot.x) + 4;
  const room = Math.min(bar.x + bar.width, plot.x + plot.width) - 4 - left;
  if (bar.height < 12 || room < 40) return;
  const text = fitted(
    pen,
    `${fileTail(tensor.name ?? tensor.category)} ${formatBytes(tensor.bytes)}`,
    room,
    10,
  );
  if (!text) return;
  // A background behind the letters keeps hatched bars readable.
  pen.rect(left - 2, bar.y + 1, pen.measure(text, 10) + 4, bar.height - 2, colour);
  pen.text(left, bar.y + bar.height / 2 + 0.5, text, {
    fill: readableOn(colour),
    baseline: "middle",
    size: 10,
  });
}

/**
 * Whether a tensor was saved: an activation until its backward pass, other saved tensors until
 * their free.
 */
export function isKept(tensor: Tensor): boolean {
  return tensor.retained_until_seconds !== null || tensor.saved_seconds !== null;
}
