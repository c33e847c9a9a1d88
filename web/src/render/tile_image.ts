// A tile of the timeline as an image: one pixel per column, painted once, then only moved and
// scaled.

import type { TimelineTile } from "../api/types.gen";
import { channels } from "../base/colours";

/** How a tile is painted. */
export interface TileStyle {
  /** The height in pixels. */
  readonly height: number;
  /** The bytes at the upper edge. */
  readonly highest: number;
  /** The colour of each group, from the bottom up; null hides a group. */
  readonly colours: readonly (string | null)[];
  readonly lines: readonly LineStyle[];
  /** The width of lines in pixels. */
  readonly thickness: number;
}

export interface LineStyle {
  readonly of: "allocated" | "active" | "reserved";
  readonly colour: string;
}

export type TileImage = HTMLCanvasElement;

const painted = new WeakMap<object, { key: string; image: TileImage }>();

/** The image of a tile, if it was painted in this style. */
export function knownImage(tile: object, key: string): TileImage | undefined {
  const known = painted.get(tile);
  return known?.key === key ? known.image : undefined;
}

/** The last image of a tile, in any style. */
export function anyImage(tile: object): TileImage | undefined {
  return painted.get(tile)?.image;
}

export function remember(tile: object, key: string, image: TileImage): void {
  painted.set(tile, { key, image });
}

/** Equal for equal styles only. */
export function styleKey(style: TileStyle): string {
  return JSON.stringify(style);
}

/** Paints a tile and remembers it. */
export function paintTile(tile: TimelineTile, style: TileStyle, key = styleKey(style)): TileImage {
  const width = tile.allocated.length;
  const image = document.createElement("canvas");
  image.width = width;
  image.height = style.height;
  const context = image.getContext("2d");
  if (context) {
    const pixels = context.createImageData(width, style.height);
    const words = new Uint32Array(pixels.data.buffer);
    paintStack(words, width, tile, style);
    for (const line of style.lines) paintLine(words, width, tile, line, style);
    context.putImageData(pixels, 0, 0);
  }
  remember(tile, key, image);
  return image;
}

function paintStack(words: Uint32Array, width: number, tile: TimelineTile, style: TileStyle): void {
  const scale = style.height / style.highest;
  const shown = tile.groups.flatMap((bytes, index) => {
    const colour = style.colours[index];
    return colour ? [{ bytes, ink: new Ink(colour) }] : [];
  });
  const brush = new Brush(words, width, style.height);
  for (let column = 0; column < width; column += 1) {
    brush.begin(column);
    for (const { bytes, ink } of shown) brush.up((bytes[column] ?? 0) * scale, ink);
    brush.end();
  }
}

class Ink {
  readonly red: number;
  readonly green: number;
  readonly blue: number;
  readonly word: number;

  constructor(colour: string) {
    [this.red, this.green, this.blue] = channels(colour);
    this.word = word(this.red, this.green, this.blue, 255);
  }
}

/** Fills one column from the bottom up. A pixel that several colours share gets their mean. */
class Brush {
  private column = 0;
  private row = 0;
  private y = 0;
  private covered = 0;
  private red = 0;
  private green = 0;
  private blue = 0;
  private readonly words: Uint32Array;
  private readonly width: number;
  private readonly height: number;

  constructor(words: Uint32Array, width: number, height: number) {
    this.words = words;
    this.width = width;
    this.height = height;
  }

  begin(column: number): void {
    this.column = column;
    this.row = this.height - 1;
    this.y = this.height;
    this.clear();
  }

  up(height: number, ink: Ink): void {
    const top = Math.max(0, this.y - height);
    while (this.y > top) {
      const next = Math.max(top, this.row);
      const part = this.y - next;
      this.y = next;
      if (part === 1) {
        this.words[this.row * this.width + this.column] = ink.word;
        this.row -= 1;
        continue;
      }
      this.covered += part;
      this.red += ink.red * part;
      this.green += ink.green * part;
      this.blue += ink.blue * part;
      if (next <= this.row) this.flush();
    }
  }

  end(): void {
    if (this.covered > 0) this.flush();
  }

  private flush(): void {
    const { covered } = this;
    const alpha = Math.min(255, Math.round(covered * 255));
    this.words[this.row * this.width + this.column] = word(
      this.red / covered,
      this.green / covered,
      this.blue / covered,
      alpha,
    );
    this.row -= 1;
    this.clear();
  }

  private clear(): void {
    this.covered = 0;
    this.red = 0;
    this.green = 0;
    this.blue = 0;
  }
}

/**
 * Draws a line with its vertical parts, except for `allocated`: that line follows the edge of the
 * stack, which vertical parts would cover where levels jump from column to column.
 */
function paintLine(
  words: Uint32Array,
  width: number,
  tile: TimelineTile,
  line: LineStyle,
  style: TileStyle,
): void {
  const bytes = tile[line.of];
  if (!bytes) return;
  const ink = new Ink(line.colour).word;
  const half = style.thickness / 2;
  const y = (column: number) => style.height * (1 - (bytes[column] ?? 0) / style.highest);
  let before = y(0);
  for (let column = 0; column < width; column += 1) {
    const here = y(column);
    if (line.of === "allocated") before = here;
    const top = Math.max(0, Math.round(Math.min(before, here) - half));
    const bottom = Math.min(style.height, Math.round(Math.max(before, here) + half));
    for (let row = top; row < bottom; row += 1) words[row * width + column] = ink;
    before = here;
  }
}

/** A pixel as a number in the machine's byte order. */
function word(red: number, green: number, blue: number, alpha: number): number {
  const [r, g, b] = [Math.round(red), Math.round(green), Math.round(blue)];
  return IS_LITTLE
    ? ((alpha << 24) | (b << 16) | (g << 8) | r) >>> 0
    : ((r << 24) | (g << 16) | (b << 8) | alpha) >>> 0;
}

const IS_LITTLE = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;
