// The head of a cursor's line: a triangle over it, or a flag beside it where the edge of the picture is near.

/** Half of the width of the triangle. */
const HALF = 5;

/** The left and right end of the head: near an edge, it is only on the other side of the line. */
export function cursorHead(
  x: number,
  box: { readonly x: number; readonly width: number },
): { readonly left: number; readonly right: number } {
  if (x + HALF > box.x + box.width) return { left: x - 2 * HALF, right: x };
  if (x - HALF < box.x) return { left: x, right: x + 2 * HALF };
  return { left: x - HALF, right: x + HALF };
}
