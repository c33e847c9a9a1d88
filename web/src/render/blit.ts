// Copies painted tiles to their positions. A window is a part of the axis, in positions.

import type { TimelineTile } from "../api/types.gen";
import { type TileName, tilesIn } from "../base/tiles";
import type { TilePath, TileStore } from "../model/tile_store";
import type { Box } from "./axes";
import { anyImage, knownImage, type TileImage } from "./tile_image";

export interface Window {
  readonly from: number;
  readonly to: number;
}

/** The parameters for drawing the tiles of a level. */
export interface Blit<P extends TilePath> {
  readonly context: CanvasRenderingContext2D;
  readonly box: Box;
  readonly window: Window;
  /** The length of the axis. */
  readonly length: number;
  readonly level: number;
  readonly store: TileStore<P>;
  /**
   * The key of the style, and a function that paints a tile; it returns null after the frame's time
   * limit.
   */
  readonly key: string;
  readonly paint: (tile: NonNullable<ReturnType<TileStore<P>["get"]>>) => TileImage | null;
}

/** Draws the window; false if a tile has arrived but is not painted yet. */
export function blitTiles<P extends TilePath>(blit: Blit<P>): boolean {
  let isDone = true;
  const { context, window, length, level, store } = blit;
  context.imageSmoothingEnabled = false;
  for (const name of tilesIn(level, length, window.from, window.to)) {
    const tile = store.around(name);
    // A tile requests a frame when it arrives; a failed one never arrives.
    if (!tile) continue;
    const image = knownImage(tile, blit.key) ?? blit.paint(tile);
    if (!image) isDone = false;
    const shown = image ?? anyImage(tile);
    if (shown) put(blit, shown, tile, spanOf(name, length));
  }
  return isDone;
}

/** Draws the tiles of an earlier picture: those of a grown recording have other boundaries. */
export function blitOld<P extends TilePath>(
  blit: Pick<Blit<P>, "context" | "box" | "window" | "level">,
  store: TileStore<P>,
): void {
  const { context, window, level } = blit;
  const { length } = store;
  context.imageSmoothingEnabled = false;
  for (const name of tilesIn(level, length, window.from, window.to)) {
    const tile = store.around(name);
    const image = tile && anyImage(tile);
    if (image) put(blit, image, tile, spanOf(name, length));
  }
}

function put(
  { context, box, window }: { context: CanvasRenderingContext2D; box: Box; window: Window },
  image: TileImage,
  tile: Window,
  span: Window,
): void {
  const from = Math.max(span.from, window.from);
  const to = Math.min(span.to, window.to);
  if (!(to > from)) return;
  const ratio = globalThis.devicePixelRatio || 1;
  const x = (at: number) => box.x + ((at - window.from) / (window.to - window.from)) * box.width;
  // Edges are on whole device pixels, so that neighbours meet without a seam.
  const sharp = (at: number) => Math.round(x(at) * ratio) / ratio;
  const left = sharp(from);
  const right = sharp(to);
  if (right <= left) return;
  const source = (at: number) => ((at - tile.from) / (tile.to - tile.from)) * image.width;
  const begin = source(from);
  context.drawImage(
    image,
    begin,
    0,
    Math.max(1e-3, source(to) - begin),
    image.height,
    left,
    box.y,
    right - left,
    box.height,
  );
}

function spanOf(name: TileName, length: number): Window {
  const count = 2 ** name.level;
  return { from: (name.tile / count) * length, to: ((name.tile + 1) / count) * length };
}

/** The column of a tile at a position. */
export function columnAt(
  tile: Pick<TimelineTile, "from" | "to">,
  columns: number,
  position: number,
): number {
  const column = Math.floor(((position - tile.from) / (tile.to - tile.from)) * columns);
  return Math.min(columns - 1, Math.max(0, column));
}
