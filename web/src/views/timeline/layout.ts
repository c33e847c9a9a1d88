// The layout of the picture.

import type { Bands } from "../../api/types.gen";
import { type Box, BYTE_AXIS_WIDTH, TIME_AXIS_HEIGHT } from "../../render/axes";
import type { Size } from "../../render/pen";

/** The width at the right for the picture's menu. */
export const RIGHT = 38;
const BAND_HEIGHT = 18;

export interface Layout {
  /** Bands of steps and of phases, and the row of marks; without any, the height is 0. */
  readonly steps: Box;
  readonly phases: Box;
  readonly marks: Box;
  readonly plot: Box;
}

/** Lays out the picture, with `top` free pixels above. */
export function layout(size: Size, bands: Bands | null, top = 0): Layout {
  const x = BYTE_AXIS_WIDTH;
  const width = Math.max(1, size.width - x - RIGHT);
  let y = top + 4;
  const row = (isThere: boolean): Box => {
    const box = { x, y, width, height: isThere ? BAND_HEIGHT : 0 };
    if (isThere) y += BAND_HEIGHT + 2;
    return box;
  };
  const steps = row((bands?.steps.length ?? 0) > 0);
  const phases = row((bands?.stretches.length ?? 0) > 0);
  const marks = row(bands?.markers.some((marker) => marker.kind !== "step") ?? false);
  y += 6;
  const plot = { x, y, width, height: Math.max(1, size.height - y - TIME_AXIS_HEIGHT) };
  return { steps, phases, marks, plot };
}
