// The drawing interface of pictures: canvas and SVG implement it, so a picture can be saved as
// either.
//
// All lengths are CSS pixels. Points are flat lists: x, y, x, y, ….

export interface TextStyle {
  readonly fill: string;
  readonly align?: "start" | "middle" | "end";
  readonly baseline?: "alphabetic" | "middle" | "top";
  /** In pixels; 12 by default. */
  readonly size?: number;
  readonly isBold?: boolean;
}

export interface LineStyle {
  readonly stroke: string;
  readonly width?: number;
  readonly dash?: readonly number[];
}

export interface Pen {
  rect(x: number, y: number, width: number, height: number, fill: string): void;
  outline(x: number, y: number, width: number, height: number, style: LineStyle): void;
  line(points: readonly number[], style: LineStyle): void;
  area(points: readonly number[], fill: string): void;
  text(x: number, y: number, text: string, style: TextStyle): void;
  /** The width of a text. */
  measure(text: string, size?: number, isBold?: boolean): number;
  /** Draws clipped to a rectangle. */
  clipped(x: number, y: number, width: number, height: number, draw: () => void): void;
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

export const FONT =
  'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", sans-serif';

export function fontOf(size = 12, isBold = false): string {
  return `${isBold ? "600 " : ""}${size}px ${FONT}`;
}

/**
 * A text shortened to fit, with `…` at its end or, for paths, at its beginning; empty if nothing
 * fits.
 */
export function fitted(
  pen: Pen,
  text: string,
  width: number,
  size = 12,
  keeps: "start" | "end" = "start",
): string {
  if (pen.measure(text, size) <= width) return text;
  let low = 0;
  let high = text.length;
  const cut = (letters: number) =>
    keeps === "start" ? `${text.slice(0, letters)}…` : `…${text.slice(text.length - letters)}`;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measure(cut(middle), size) <= width) low = middle;
    else high = middle - 1;
  }
  return low < 2 ? "" : cut(low);
}
