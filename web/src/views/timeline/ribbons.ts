// Draws a ribbon for each allocation, as high as its bytes: its position in the stack and its
// lifetime.

import type { AllocationTile, Ribbon } from "../../api/types.gen";
import { groupColour, type Inks } from "../../base/colours";
import type { Pen } from "../../render/pen";
import { remember, type TileImage } from "../../render/tile_image";

/** The pixels of a tile: more than its 512 columns, because ribbons begin and end between them. */
const WIDTH = 1024;

export interface RibbonStyle {
  readonly height: number;
  readonly highest: number;
  readonly inks: Inks;
  readonly hidden: ReadonlySet<string>;
}

export function paintRibbons(tile: AllocationTile, style: RibbonStyle, key: string): TileImage {
  const image = document.createElement("canvas");
  image.width = WIDTH;
  image.height = style.height;
  const context = image.getContext("2d");
  if (context) {
    const x = (at: number) => ((at - tile.from) / (tile.to - tile.from)) * WIDTH;
    const y = (bytes: number) => style.height * (1 - bytes / style.highest);
    eachPiece(tile, style, (piece) => {
      const left = x(piece.from);
      const width = Math.max(1, x(piece.to) - left);
      const top = y(piece.low + piece.bytes);
      const height = y(piece.low) - top;
      context.fillStyle = piece.fill;
      // Separate neighbours by a seam, if there is space.
      context.fillRect(left, top, width, height > 3 ? height - 0.6 : height);
    });
  }
  remember(tile, key, image);
  return image;
}

/** The same with a pen, for a picture that is saved. */
export function drawRibbons(
  pen: Pen,
  tile: AllocationTile,
  style: RibbonStyle,
  x: (at: number) => number,
  y: (bytes: number) => number,
): void {
  eachPiece(tile, style, (piece) => {
    const left = x(piece.from);
    const top = y(piece.low + piece.bytes);
    pen.rect(
      left,
      top,
      Math.max(0.5, x(piece.to) - left),
      Math.max(0.25, y(piece.low) - top),
      piece.fill,
    );
  });
}

interface Piece {
  readonly from: number;
  readonly to: number;
  readonly low: number;
  readonly bytes: number;
  readonly fill: string;
}

function eachPiece(tile: AllocationTile, style: RibbonStyle, draw: (piece: Piece) => void): void {
  const width = (tile.to - tile.from) / Math.max(1, tile.rest.length);
  for (let column = 0; column < tile.rest.length; column += 1) {
    const bytes = tile.rest[column] ?? 0;
    const from = tile.from + column * width;
    if (bytes > 0) draw({ from, to: from + width, low: 0, bytes, fill: style.inks.edge });
  }
  for (const shape of tile.shapes) {
    const category = tile.categories[shape.category] ?? "unknown";
    if (style.hidden.has(category)) continue;
    const fill = shaded(groupColour(style.inks, category, shape.category), shape.id);
    eachStretch(shape, (from, to, low) => draw({ from, to, low, bytes: shape.bytes, fill }));
  }
}

/** The parts of the axis in which a shape stays at one height. */
export function eachStretch(
  shape: Ribbon,
  take: (from: number, to: number, low: number) => void,
): void {
  for (let at = 0; at + 1 < shape.xs.length; at += 1) {
    take(shape.xs[at] ?? 0, shape.xs[at + 1] ?? 0, shape.ys[at] ?? 0);
  }
}

/** The allocation at a point of the picture; null if none is shown there by itself. */
export function shapeAt(tile: AllocationTile, position: number, bytes: number): Ribbon | null {
  let found: Ribbon | null = null;
  for (const shape of tile.shapes) {
    eachStretch(shape, (from, to, low) => {
      if (position >= from && position <= to && bytes >= low && bytes < low + shape.bytes)
        found = shape;
    });
    if (found) return found;
  }
  return null;
}

const shades = new Map<string, string>();

/** One of five shades of a colour, so that neighbours of one category can be distinguished. */
export function shaded(colour: string, id: number): string {
  const step = (id * 7) % 5;
  const key = colour + step;
  const known = shades.get(key);
  if (known) return known;
  const value = Number.parseInt(colour.slice(1), 16);
  const factor = 0.84 + 0.08 * step;
  const part = (shift: number) => Math.min(255, Math.round(((value >> shift) & 255) * factor));
  const made = `rgb(${part(16)}, ${part(8)}, ${part(0)})`;
  shades.set(key, made);
  return made;
}
