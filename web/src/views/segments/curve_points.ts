// Points of a curve over time.

/** The index of the last point up to a time: memory does not change between two points. */
export function nearest(points: readonly { readonly seconds: number }[], at: number): number {
  let low = 0;
  let high = points.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((points[middle]?.seconds ?? 0) <= at + 1e-9) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}
