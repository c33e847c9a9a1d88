// Lines of the limits of memory: that of the GPU, and torch's limit when an allocation failed.

import { formatBytes } from "../../base/bytes";
import type { Inks } from "../../base/colours";
import type { Box } from "../../render/axes";
import type { Pen } from "../../render/pen";

/** The lines in bytes; null hides one. */
export interface Ceilings {
  readonly capacity: number | null;
  readonly limit: number | null;
}

/** Dashes of the line of the whole GPU; that of the limit is solid. */
export const CAPACITY_DASH: readonly number[] = [6, 4];

const SIZE = 11;
/** The height of a label above or below its line, in pixels. */
const ROOM = 17;

/** Draws the lines; a single one if both are equal. */
export function drawCeilings(
  pen: Pen,
  plot: Box,
  ceilings: Ceilings,
  y: (bytes: number) => number,
  inks: Inks,
): void {
  const { capacity, limit } = ceilings;
  const isOne = capacity !== null && capacity === limit;
  const at = (bytes: number) => Math.round(y(bytes)) + 0.5;
  if (capacity !== null && !isOne) {
    const line = at(capacity);
    stroke(pen, plot, line, inks.capacity, CAPACITY_DASH);
    const isAbove = line - plot.y >= ROOM;
    label(pen, plot, line, `whole GPU: ${formatBytes(capacity)}`, {
      fill: inks.capacity,
      ground: inks.panel,
      side: "right",
      isAbove,
    });
  }
  if (limit !== null) {
    const line = at(limit);
    stroke(pen, plot, line, inks.limit);
    // The line of the whole GPU must not cross the label.
    const ceiling = capacity === null || isOne ? plot.y : at(capacity);
    const name = isOne ? "limit, the whole GPU" : "limit";
    label(pen, plot, line, `${name}: ${formatBytes(limit)}`, {
      fill: inks.limit,
      ground: inks.panel,
      side: "left",
      isAbove: line - ceiling >= ROOM,
    });
  }
}

function stroke(pen: Pen, plot: Box, y: number, colour: string, dash?: readonly number[]): void {
  const style = { stroke: colour, width: 1.5 };
  pen.line([plot.x, y, plot.x + plot.width, y], dash ? { ...style, dash } : style);
}

interface Label {
  readonly fill: string;
  readonly ground: string;
  readonly side: "left" | "right";
  readonly isAbove: boolean;
}

/** Draws a label with a background: below its line it may be over the stack. */
function label(pen: Pen, plot: Box, line: number, text: string, style: Label): void {
  const width = pen.measure(text, SIZE, true);
  const left = style.side === "left" ? plot.x + 6 : plot.x + plot.width - 6 - width;
  const base = style.isAbove ? line - 4 : line + 13;
  pen.rect(left - 3, base - 10, width + 6, 13, `${style.ground}d8`);
  pen.text(left, base, text, { fill: style.fill, size: SIZE, isBold: true });
}
