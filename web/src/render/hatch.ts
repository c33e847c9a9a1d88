// Slanted lines for free memory, which do not depend on hues.

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
    // Lines begin at multiples of the gap of the whole picture, so that those of neighbours meet.
    for (let at = Math.floor((x - height) / gap) * gap; at < x + width; at += gap) {
      pen.line([at, y + height, at + height, y], { stroke });
    }
  });
}
