// Draws one frame of the picture: axes, tiles, bands, and the pointed-at parts.

import type {
  AllocationCard,
  AllocationTile,
  Bands,
  Timeline,
  TimelineTile,
} from "../../api/types.gen";
import { positionOf, type TimeAxis } from "../../base/axis";
import { groupColour, type Inks } from "../../base/colours";
import { groupName } from "../../base/sentences";
import { levelFor, tilesIn } from "../../base/tiles";
import type { TilePath } from "../../model/tile_store";
import type { Tiles } from "../../model/use_tiles";
import { type Box, drawAxis, drawBreaks, drawByteAxis, toPixel } from "../../render/axes";
import { type Blit, blitOld, blitTiles, type Window } from "../../render/blit";
import type { CanvasPen } from "../../render/canvas_pen";
import { cursorHead } from "../../render/cursor_mark";
import { fitted, type Pen, type Size } from "../../render/pen";
import { paintTile, styleKey, type TileStyle } from "../../render/tile_image";
import { drawBands } from "./bands";
import { type Ceilings, drawCeilings } from "./ceilings";
import { drawRequest, type Failure } from "./failure";
import { type Layout, layout } from "./layout";
import { drawRibbons, eachStretch, paintRibbons, type RibbonStyle } from "./ribbons";
import type { LineName } from "./state";

/** Everything that a frame shows, read once. */
export interface Frame {
  readonly size: Size;
  readonly inks: Inks;
  readonly axis: TimeAxis;
  /** The part of the axis that is shown, and the same in seconds. */
  readonly along: Window;
  readonly window: Window;
  readonly seconds: number;
  readonly timeline: Timeline;
  readonly bands: Bands | null;
  readonly highest: number;
  readonly hidden: ReadonlySet<string>;
  readonly lines: Readonly<Record<LineName, boolean>>;
  readonly stacks: Tiles<"timeline/tile">;
  /** Ribbons instead of stacks, if they are shown. */
  readonly ribbons: Tiles<"allocations/tile"> | null;
  readonly cursor: number | null;
  readonly pointed: { readonly seconds: number; readonly bytes: number } | null;
  readonly brushed: Window | null;
  readonly chosen: AllocationCard | null;
  /** The allocation chosen by the arrows. */
  readonly walked: number | null;
  readonly failure: Failure | null;
}

/** The time limit for painting tiles in one frame; the rest waits for the next. */
const PAINT_MILLIS = 6;

export function levelOf(frame: Pick<Frame, "along" | "axis" | "timeline">, width: number): number {
  const { columns, deepest_level } = frame.timeline;
  return levelFor(
    frame.along,
    frame.axis.length,
    width * (globalThis.devicePixelRatio || 1),
    columns,
    deepest_level,
  );
}

/** Draws with painted tiles; false when another frame is needed to finish. */
export function drawLive(pen: CanvasPen, frame: Frame): boolean {
  const at = layout(frame.size, frame.bands);
  const level = levelOf(frame, at.plot.width);
  drawBehind(pen, at, frame);
  const until = performance.now() + PAINT_MILLIS;
  const isDone = frame.ribbons
    ? blitRibbons(pen, at.plot, frame, level, until)
    : blitStacks(pen, at.plot, frame, level, until);
  drawOver(pen, at, frame);
  return isDone;
}

/** The height above a saved picture for its title and legend. */
export const SAVED_HEAD = 56;

/** Draws the same with a pen, for a saved picture. */
export function drawSaved(pen: Pen, shown: Frame, title: string): void {
  const size = { ...shown.size, height: shown.size.height + SAVED_HEAD };
  const frame = { ...shown, size, pointed: null, brushed: null, walked: null };
  const at = layout(size, frame.bands, SAVED_HEAD);
  drawTitle(pen, frame, title);
  const level = levelOf(frame, at.plot.width);
  drawBehind(pen, at, frame);
  pen.clipped(at.plot.x, at.plot.y, at.plot.width, at.plot.height, () => {
    for (const name of tilesIn(level, frame.axis.length, frame.along.from, frame.along.to)) {
      const tile = frame.ribbons ? frame.ribbons.now.around(name) : frame.stacks.now.around(name);
      if (tile && "shapes" in tile) {
        drawRibbons(
          pen,
          tile,
          ribbonStyle(at.plot, frame),
          xAlong(at.plot, frame),
          yOf(at.plot, frame),
        );
      } else if (tile) strokeStack(pen, tile, at.plot, frame);
    }
  });
  drawOver(pen, at, frame);
}

function drawTitle(pen: Pen, frame: Frame, title: string): void {
  pen.text(16, 24, fitted(pen, title, frame.size.width - 32, 14), {
    fill: frame.inks.ink,
    size: 14,
    isBold: true,
  });
  let x = 16;
  frame.timeline.groups.forEach((group, index) => {
    const name = fitted(pen, groupName(frame.timeline.by, group.name), 180, 11);
    const width = pen.measure(name, 11) + 30;
    if (frame.hidden.has(group.name) || x + width > frame.size.width) return;
    pen.rect(x, 38, 10, 10, groupColour(frame.inks, group.name, index));
    pen.text(x + 15, 47, name, { fill: frame.inks.quiet, size: 11 });
    x += width;
  });
}

function drawBehind(pen: Pen, at: Layout, frame: Frame): void {
  drawByteAxis(pen, at.plot, frame.highest, frame.inks);
  const last = frame.bands?.steps.at(-1)?.number;
  const steps = last === undefined ? undefined : last + 1;
  drawAxis(pen, at.plot, frame.axis, frame.along, frame.inks, steps);
}

function blitStacks(pen: CanvasPen, box: Box, frame: Frame, level: number, until: number): boolean {
  const style = stackStyle(box, frame);
  const key = styleKey(style);
  const paint = (tile: TimelineTile) => paintTile(tile, style, key);
  return blit(pen, box, frame, level, until, frame.stacks, key, paint);
}

function blitRibbons(
  pen: CanvasPen,
  box: Box,
  frame: Frame,
  level: number,
  until: number,
): boolean {
  if (!frame.ribbons) return true;
  const style = ribbonStyle(box, frame);
  const key = `${style.height} ${style.highest} ${style.inks.isDark} ${[...style.hidden].join()}`;
  const paint = (tile: AllocationTile) => paintRibbons(tile, style, key);
  return blit(pen, box, frame, level, until, frame.ribbons, key, paint);
}

/** Draws tiles, painting missing ones until a time; false when another frame is needed. */
function blit<P extends TilePath>(
  pen: CanvasPen,
  box: Box,
  frame: Frame,
  level: number,
  until: number,
  tiles: Tiles<P>,
  key: string,
  paint: Blit<P>["paint"],
): boolean {
  const context = pen.context as CanvasRenderingContext2D;
  const { along: window, axis } = frame;
  const given = { context, box, window, length: axis.length, level, store: tiles.now, key };
  if (tiles.before && !tiles.now.isComplete) {
    blitOld(given, tiles.before);
    return true;
  }
  return blitTiles({
    ...given,
    paint: (tile) => (performance.now() < until ? paint(tile) : null),
  });
}

/** Colours of the groups, from the bottom of the stack up; null for hidden groups. */
export function stackColours(
  frame: Pick<Frame, "timeline" | "inks" | "hidden">,
): (string | null)[] {
  return frame.timeline.groups.map((group, index) =>
    frame.hidden.has(group.name) ? null : groupColour(frame.inks, group.name, index),
  );
}

function stackStyle(box: Box, frame: Frame): TileStyle {
  const ratio = globalThis.devicePixelRatio || 1;
  const names = ["reserved", "active", "allocated"] as const;
  return {
    height: Math.max(1, Math.round(box.height * ratio)),
    highest: frame.highest,
    colours: stackColours(frame),
    lines: names.filter((of) => frame.lines[of]).map((of) => ({ of, colour: frame.inks[of] })),
    thickness: 1.5 * ratio,
  };
}

function ribbonStyle(box: Box, frame: Frame): RibbonStyle {
  const ratio = globalThis.devicePixelRatio || 1;
  return {
    height: Math.max(1, Math.round(box.height * ratio)),
    highest: frame.highest,
    inks: frame.inks,
    hidden: frame.hidden,
  };
}

function strokeStack(pen: Pen, tile: TimelineTile, box: Box, frame: Frame): void {
  const [x, y] = [xAlong(box, frame), yOf(box, frame)];
  const columns = tile.allocated.length;
  const width = (tile.to - tile.from) / columns;
  const low = new Float64Array(columns);
  const outline = (bytes: ArrayLike<number>) => {
    const points: number[] = [];
    for (let column = 0; column < columns; column += 1) {
      const height = y(bytes[column] ?? 0);
      // Extend the last column into the next tile, so that no seam is visible.
      const end = x(tile.from + (column + 1) * width) + (column + 1 === columns ? 0.4 : 0);
      points.push(x(tile.from + column * width), height, end, height);
    }
    return points;
  };
  stackColours(frame).forEach((fill, index) => {
    if (!fill) return;
    const below = outline(low);
    for (let column = 0; column < columns; column += 1)
      low[column] = (low[column] ?? 0) + (tile.groups[index]?.[column] ?? 0);
    const back: number[] = [];
    for (let at = below.length - 2; at >= 0; at -= 2) back.push(below[at] ?? 0, below[at + 1] ?? 0);
    pen.area([...outline(low), ...back], fill);
  });
  for (const of of ["reserved", "active", "allocated"] as const) {
    const bytes = tile[of];
    if (frame.lines[of] && bytes) pen.line(outline(bytes), { stroke: frame.inks[of], width: 1.5 });
  }
}

function drawOver(pen: Pen, at: Layout, frame: Frame): void {
  const { plot } = at;
  const { inks } = frame;
  if (frame.bands) drawBands(pen, at, frame.bands, frame.window, xOf(plot, frame), inks);
  pen.clipped(plot.x, plot.y, plot.width, plot.height, () =>
    drawBreaks(pen, plot, frame.axis, frame.along, inks),
  );
  drawFailure(pen, plot, frame);
  drawCeilings(pen, plot, ceilings(frame), yOf(plot, frame), inks);
  pen.clipped(plot.x, 0, plot.width, frame.size.height, () => {
    if (frame.chosen) drawChosen(pen, plot, frame, frame.chosen);
    if (frame.walked !== null) outlineRibbon(pen, plot, frame, frame.walked, inks.accent);
    const x = xOf(plot, frame);
    if (frame.brushed) {
      const from = x(frame.brushed.from);
      const width = x(frame.brushed.to) - from;
      pen.rect(from, plot.y, width, plot.height, `${inks.accent}33`);
      pen.outline(from + 0.5, plot.y + 0.5, width, plot.height, { stroke: inks.accent });
    }
    if (frame.pointed && !frame.brushed) {
      const pixel = Math.round(x(frame.pointed.seconds)) + 0.5;
      pen.line([pixel, plot.y, pixel, plot.y + plot.height], { stroke: inks.quiet, dash: [3, 3] });
    }
    if (frame.cursor !== null) drawCursor(pen, plot, x(frame.cursor), cursorEnd(plot, frame), inks);
  });
}

/** The end of the cursor's line: at the peak it ends above the stack, so that it covers nothing. */
function cursorEnd(plot: Box, frame: Frame): number {
  const { peak } = frame.timeline;
  const isPeak = frame.cursor !== null && Math.abs(frame.cursor - peak.seconds) < 1e-6;
  return isPeak ? yOf(plot, frame)(peak.allocated) : plot.y + plot.height;
}

function drawCursor(pen: Pen, plot: Box, x: number, end: number, inks: Inks): void {
  const pixel = Math.round(x) + 0.5;
  const { left, right } = cursorHead(pixel, plot);
  const top = plot.y - 7;
  pen.line([pixel, plot.y + 2, pixel, Math.max(plot.y + 2, end)], { stroke: inks.ink, width: 1 });
  pen.line([left, top, right, top, pixel, plot.y + 2, left, top], { stroke: inks.ink, width: 1.5 });
}

/** The lines of the limits that are switched on and inside the picture. */
function ceilings(frame: Frame): Ceilings {
  const { failure, lines, highest } = frame;
  const shown = (isOn: boolean, bytes: number | null | undefined) =>
    isOn && bytes != null && bytes <= highest ? bytes : null;
  const { total } = frame.timeline;
  const limit = shown(lines.limit, failure?.limit);
  return { capacity: shown(lines.capacity || limit === total, total), limit };
}

function drawFailure(pen: Pen, plot: Box, frame: Frame): void {
  const { failure, inks } = frame;
  if (!failure || !frame.lines.limit) return;
  pen.clipped(plot.x, plot.y, plot.width, plot.height, () =>
    drawRequest(pen, failure, { x: xOf(plot, frame), y: yOf(plot, frame) }, inks),
  );
}

/** Draws the lifetime of the chosen allocation, and its ribbon if ribbons are shown. */
function drawChosen(pen: Pen, plot: Box, frame: Frame, card: AllocationCard): void {
  const x = xOf(plot, frame);
  const { inks } = frame;
  const from = x(card.allocated_seconds ?? 0);
  const to = Math.max(from + 2, x(card.freed_seconds ?? frame.seconds));
  pen.rect(from, plot.y, to - from, plot.height, `${inks.accent}12`);
  for (const edge of [from, to]) {
    pen.line([edge, plot.y, edge, plot.y + plot.height], { stroke: inks.accent, dash: [4, 3] });
  }
  pen.rect(from, plot.y, to - from, 5, inks.accent);
  outlineRibbon(pen, plot, frame, card.id, inks.ink);
}

function outlineRibbon(pen: Pen, plot: Box, frame: Frame, id: number, stroke: string): void {
  if (!frame.ribbons) return;
  const y = yOf(plot, frame);
  const along = xAlong(plot, frame);
  for (const name of tilesIn(
    levelOf(frame, plot.width),
    frame.axis.length,
    frame.along.from,
    frame.along.to,
  )) {
    const shape = frame.ribbons.now.around(name)?.shapes.find((one) => one.id === id);
    if (shape) {
      eachStretch(shape, (begin, end, low) => {
        const top = y(low + shape.bytes);
        const left = along(begin);
        const width = Math.max(1, along(end) - left);
        // Around the ribbon, not over it, so that a thin one keeps its colour.
        pen.outline(left - 1, top - 1, width + 2, y(low) - top + 2, { stroke, width: 2 });
      });
    }
  }
}

/** Converts times to positions in a box. */
export function xOf(box: Box, frame: Pick<Frame, "along" | "axis">): (seconds: number) => number {
  const x = xAlong(box, frame);
  return (seconds) => x(positionOf(frame.axis.knots, seconds));
}

/** Converts positions on the axis to positions in a box. */
function xAlong(box: Box, frame: Pick<Frame, "along">): (position: number) => number {
  const scale = { ...frame.along, start: box.x, length: box.width };
  return (position) => toPixel(scale, position);
}

export function yOf(box: Box, frame: Pick<Frame, "highest">): (bytes: number) => number {
  return (bytes) => box.y + box.height * (1 - bytes / frame.highest);
}
