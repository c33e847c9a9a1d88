// Steps, phases and marks above the picture. A name is shown if it fits, never over another.

import type { Bands, Marker } from "../../api/types.gen";
import { type Inks, phaseGrey, readableOn } from "../../base/colours";
import { stepName } from "../../base/sentences";
import type { Box } from "../../render/axes";
import type { Window } from "../../render/blit";
import { fitted, type Pen } from "../../render/pen";
import type { Layout } from "./layout";

interface Band {
  readonly from: number;
  readonly to: number;
  readonly name: string;
  readonly fill: string;
}

/** The fewest letters of a shortened name. */
const LEAST_CUT = 8;
/** The smallest distance of two marks with lines, in pixels. */
const LEAST_GAP = 20;
/** The longest name of a mark, in pixels. */
const MOST_MARK_WIDTH = 280;

/** The position of a time. */
type X = (seconds: number) => number;

/** Draws the bands; `window` is the shown part, in seconds. */
export function drawBands(
  pen: Pen,
  at: Layout,
  bands: Bands,
  window: Window,
  x: X,
  inks: Inks,
): void {
  if (at.steps.height > 0) {
    const shown = visible(bands.steps, window);
    const fill = (number: number) => (number % 2 === 0 ? inks.raised : inks.edge);
    const named = shown.map((step) => ({
      ...step,
      name: stepName(step),
      fill: fill(step.number),
    }));
    drawRow(pen, at.steps, named, x);
  }
  if (at.phases.height > 0) {
    const shown = visible(bands.stretches, window);
    drawRow(
      pen,
      at.phases,
      shown.map((one) => ({ ...one, fill: phaseGrey(inks, one.name) })),
      x,
    );
  }
  if (at.marks.height > 0) drawMarks(pen, at, bands.markers, window, x, inks);
}

function drawRow(pen: Pen, box: Box, bands: readonly Band[], x: X): void {
  let end = Number.NEGATIVE_INFINITY;
  pen.clipped(box.x, box.y, box.width, box.height, () => {
    for (const band of bands) {
      const from = x(band.from);
      const to = x(band.to);
      // Skip bands that are thinner than a pixel and covered already.
      if (to <= end) continue;
      end = Math.max(to, Math.floor(from) + 1);
      const gap = to - from > 4 ? 1 : 0;
      pen.rect(from, box.y, Math.max(1, to - from - gap), box.height, band.fill);
      const left = Math.max(from, box.x) + 5;
      const room = Math.min(to, box.x + box.width) - 5 - left;
      if (room < 12) continue;
      const name = fitted(pen, band.name, room, 11);
      // A few letters and dots are not readable.
      if (name === band.name || name.length > LEAST_CUT)
        pen.text(left, box.y + box.height / 2 + 0.5, name, {
          fill: readableOn(band.fill),
          baseline: "middle",
          size: 11,
        });
    }
  });
}

function drawMarks(
  pen: Pen,
  at: Layout,
  markers: readonly Marker[],
  window: Window,
  place: X,
  inks: Inks,
): void {
  const { marks, plot } = at;
  const right = marks.x + marks.width;
  const shown = markers.filter(
    (one) => one.kind !== "step" && one.seconds >= window.from && one.seconds <= window.to,
  );
  const xs = shown.map((one) => Math.round(place(one.seconds)) + 0.5);
  let lineAt = Number.NEGATIVE_INFINITY;
  let textEnd = Number.NEGATIVE_INFINITY;
  pen.clipped(marks.x, marks.y, marks.width, plot.y + plot.height - marks.y, () => {
    shown.forEach((marker, index) => {
      const x = xs[index] ?? 0;
      const isOom = marker.kind === "oom";
      const fill = isOom ? inks.alarm : inks.quiet;
      // Closer lines would cover the picture.
      if (x - lineAt >= LEAST_GAP || isOom) {
        pen.line([x, marks.y, x, plot.y + plot.height], {
          stroke: fill,
          dash: isOom ? [] : [2, 3],
        });
        lineAt = x;
      }
      const style = { fill, baseline: "middle", size: 11, isBold: isOom } as const;
      const y = marks.y + marks.height / 2;
      const room = Math.min(MOST_MARK_WIDTH, (xs[index + 1] ?? right) - x - 8);
      const name = fitted(pen, marker.name, room, 11);
      const isLast = index + 1 === shown.length;
      const left = x - 4 - pen.measure(marker.name, 11, isOom);
      const hasLeft = left > Math.max(marks.x, textEnd, isOom ? 0 : (xs[index - 1] ?? 0));
      // At the right edge a name is to the left of its line instead of cut, so that a failure is
      // always readable.
      if (name !== marker.name && (isLast || isOom) && hasLeft) {
        pen.text(x - 4, y, marker.name, { ...style, align: "end" });
        textEnd = x;
      } else if (name === marker.name || name.length > LEAST_CUT) {
        pen.text(x + 4, y, name, style);
        textEnd = x + 4 + pen.measure(name, 11, isOom);
      }
    });
  });
}

/** The bands of a sorted list that overlap the window. */
function visible<T extends Window>(all: readonly T[], window: Window): readonly T[] {
  const first = partition(all, (one) => one.to < window.from);
  const last = partition(all, (one) => one.from <= window.to);
  return all.slice(first, last);
}

/** The number of leading items for which `isBefore` is true, by binary search. */
function partition<T>(all: readonly T[], isBefore: (one: T) => boolean): number {
  let low = 0;
  let high = all.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBefore(all[middle] as T)) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The band of a sorted list that contains a time. */
export function bandAt<T extends Window>(all: readonly T[], seconds: number): T | null {
  const found = all[partition(all, (one) => one.from <= seconds) - 1];
  return found && seconds <= found.to ? found : null;
}
