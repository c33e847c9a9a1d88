// Finds the point of two curves that is nearest to the pointer.

import type { DiffCurves, DiffPoint } from "../../api/types.gen";
import type { SideName } from "./sides";

export interface Found {
  readonly side: SideName;
  readonly point: DiffPoint;
}

export interface Scales {
  readonly x: (position: number) => number;
  readonly y: (bytes: number) => number;
}

/** The horizontal search distance around the pointer, in pixels. */
const NEAR = 4;

/** The nearest point of either curve; vertical distance counts more than horizontal. */
export function pointAt(curves: DiffCurves, scales: Scales, x: number, y: number): Found | null {
  let best: (Found & { readonly far: number }) | null = null;
  for (const side of ["b", "a"] as const) {
    for (const point of nearby(curves.curves[side].points, scales, x)) {
      const far =
        Math.abs(scales.x(point.position) - x) / 4 + Math.abs(scales.y(point.allocated) - y);
      if (!best || far < best.far) best = { side, point, far };
    }
  }
  return best && { side: best.side, point: best.point };
}

/** The points close to a pixel, or the one before it, whose value holds until the next. */
function nearby(points: readonly DiffPoint[], { x }: Scales, pixel: number): readonly DiffPoint[] {
  const close = points.filter((point) => Math.abs(x(point.position) - pixel) <= NEAR);
  if (close.length > 0) return close;
  const before = points.findLast((point) => x(point.position) <= pixel) ?? points[0];
  return before ? [before] : [];
}

/** The point this many points later. */
export function stepped(
  points: readonly DiffPoint[],
  seconds: number,
  by: number,
): DiffPoint | null {
  const at = points.findLastIndex((point) => point.seconds <= seconds);
  return points[Math.min(points.length - 1, Math.max(0, at + by))] ?? null;
}
