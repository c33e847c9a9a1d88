// Slanted lines: what is there and not in use. Seen also by those who see no hues.

import type { Pen } from "./pen";

/** Slanted lines over a rectangle, `gap` pixels apart. */
export function hatch(
  pen: Pen,
  x: number,
  y: number,
  width: number,
  height: number,
  stroke: string,
  gap = 7,
): void {
  pen.clipped(x, y, width, height, () => {
    // Lines of neighbours meet: they begin at multiples of the gap of the whole picture.
    for (let at = Math.floor((x - height) / gap) * gap; at < x + width; at += gap) {
      pen.line([at, y + height, at + height, y], { stroke });
    }
  });
}
