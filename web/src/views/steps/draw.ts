// Draws steps as bars: peak, end, growth, and the peaks of the phases.

import { formatBytes, formatChange } from "../../base/bytes";
import { type Inks, phaseColour } from "../../base/colours";
import { phaseName } from "../../base/sentences";
import { type Box, BYTE_AXIS_WIDTH, drawByteAxis } from "../../render/axes";
import { fitted, type Pen, type Size } from "../../render/pen";
import type { Bar } from "./bars";

export interface StepPicture {
  readonly bars: readonly Bar[];
  /** The number of the step at an index. */
  readonly numbers: readonly number[];
  /** The index of the step that did not finish; null if all did. */
  readonly unfinished: number | null;
  readonly phases: readonly string[];
  /** Whether there is a row of bars for each phase. */
  readonly byPhase: boolean;
  /** Lines that grow from step to step, with the index of their first step. */
  readonly suspects: readonly Suspect[];
  /** The bar under the pointer or the keys. */
  readonly chosen: number | null;
}

export interface Suspect {
  readonly since: number;
  readonly text: string;
}

/** The number of drawn suspects; the table has all. */
export const MOST_SUSPECTS = 3;
const SUSPECT_HEIGHT = 16;
const TOP = 26;
const RIGHT = 12;
const BOTTOM = 22;
const BETWEEN = 26;

/** The horizontal position of the bars. */
export function plotOf(size: Size): { x: number; width: number } {
  return { x: BYTE_AXIS_WIDTH, width: Math.max(1, size.width - BYTE_AXIS_WIDTH - RIGHT) };
}

/** The bar at a position of the picture. */
export function barAt(picture: StepPicture, size: Size, x: number): number | null {
  const plot = plotOf(size);
  const at = Math.floor(((x - plot.x) / plot.width) * picture.bars.length);
  return at >= 0 && at < picture.bars.length ? at : null;
}

export function drawSteps(pen: Pen, size: Size, inks: Inks, picture: StepPicture): void {
  const { x, width } = plotOf(size);
  const marks = picture.suspects.length * SUSPECT_HEIGHT;
  const top = TOP + (marks > 0 ? marks + 4 : 0);
  const inside = size.height - top - BOTTOM;
  const box = (y: number, height: number): Box => ({ x, y, width, height });
  drawChosen(pen, box(top, inside), inks, picture);
  drawSuspects(pen, box(6, marks), inks, picture);
  if (picture.byPhase && picture.phases.length > 0) {
    const rows = picture.phases.length;
    const height = (inside - BETWEEN * (rows - 1)) / rows;
    picture.phases.forEach((name, index) => {
      const rowBox = box(top + index * (height + BETWEEN), height);
      drawPhase(pen, rowBox, inks, picture, name, index);
    });
  } else {
    const growth = Math.min(110, inside * 0.28);
    // If no step grew, the bars get all the space.
    const hasGrowth = picture.bars.some((bar) => bar.growth !== 0);
    const room = hasGrowth ? inside - growth - BETWEEN : inside;
    drawLevels(pen, box(top, room), inks, picture);
    if (hasGrowth) drawGrowth(pen, box(top + inside - growth, growth), inks, picture);
  }
  drawNumbers(pen, box(top, inside), inks, picture);
}

function drawLevels(pen: Pen, box: Box, inks: Inks, picture: StepPicture): void {
  const highest = 1.04 * Math.max(1, ...picture.bars.map((bar) => bar.peak));
  drawByteAxis(pen, box, highest, inks);
  legend(pen, box, inks, [
    [inks.groups[1] ?? inks.bar, "peak of the step"],
    [inks.groups[0] ?? inks.accent, "allocated at its end"],
  ]);
  const steps = (picture.bars[0]?.last ?? 0) - (picture.bars[0]?.first ?? 0) + 1;
  if (steps > 1)
    pen.text(
      box.x + box.width - 34,
      box.y - 8,
      `a bar is ${steps} steps: the highest, and what all grew`,
      {
        fill: inks.quiet,
        align: "end",
      },
    );
  eachBar(box, picture, (bar, x, width) => {
    const peak = (bar.peak / highest) * box.height;
    const end = (bar.end / highest) * box.height;
    pen.rect(x, box.y + box.height - peak, width, peak, inks.groups[1] ?? inks.bar);
    pen.rect(x, box.y + box.height - end, width, end, inks.groups[0] ?? inks.accent);
  });
}

function drawGrowth(pen: Pen, box: Box, inks: Inks, picture: StepPicture): void {
  const most = Math.max(0, ...picture.bars.map((bar) => bar.growth));
  const least = Math.min(0, ...picture.bars.map((bar) => bar.growth));
  const whole = Math.max(1, most - least);
  const zero = Math.round(box.y + (most / whole) * box.height) + 0.5;
  const label = (bytes: number, y: number) =>
    pen.text(box.x - 8, y, bytes === 0 ? "0" : shortChange(bytes), {
      fill: inks.quiet,
      align: "end",
      baseline: "middle",
    });
  const before = "at the end than the step before";
  const entries: [string, string][] = [];
  if (most > 0) entries.push([inks.grew, `more ${before}`]);
  if (least < 0) entries.push([inks.shrank, most > 0 ? "less" : `less ${before}`]);
  legend(pen, box, inks, entries);
  pen.line([box.x, zero, box.x + box.width, zero], { stroke: inks.edge });
  label(0, zero);
  if (zero - box.y > 14) label(most, box.y);
  if (box.y + box.height - zero > 18) label(least, box.y + box.height - 4);
  eachBar(box, picture, (bar, x, width) => {
    const height = (Math.abs(bar.growth) / whole) * box.height;
    // Small growth gets at least one pixel.
    const shown = bar.growth === 0 ? 0 : Math.max(1, height);
    pen.rect(
      x,
      bar.growth > 0 ? zero - shown : zero,
      width,
      shown,
      bar.growth > 0 ? inks.grew : inks.shrank,
    );
  });
}

/** Two digits are enough beside an axis: `+46 MiB`. */
function shortChange(bytes: number): string {
  return formatChange(bytes).replace(/\d+\.\d+/, (digits) =>
    String(Number(Number(digits).toPrecision(2))),
  );
}

function drawPhase(
  pen: Pen,
  box: Box,
  inks: Inks,
  picture: StepPicture,
  name: string,
  index: number,
): void {
  const highest = 1.04 * Math.max(1, ...picture.bars.flatMap((bar) => bar.phases));
  const colour = phaseColour(inks, name);
  const top = Math.max(0, ...picture.bars.map((bar) => bar.phases[index] ?? 0));
  drawByteAxis(pen, box, highest, inks);
  legend(pen, box, inks, [[colour, `${phaseName(name)}: peak ${formatBytes(top)}`]]);
  eachBar(box, picture, (bar, x, width) => {
    const height = ((bar.phases[index] ?? 0) / highest) * box.height;
    pen.rect(x, box.y + box.height - height, width, height, colour);
  });
}

function eachBar(
  box: Box,
  picture: StepPicture,
  draw: (bar: Bar, x: number, width: number) => void,
): void {
  const pitch = box.width / picture.bars.length;
  const gap = pitch >= 8 ? Math.min(6, pitch * 0.15) : pitch >= 4 ? 1 : 0;
  const width = Math.min(80, pitch - gap);
  picture.bars.forEach((bar, at) => {
    draw(bar, box.x + at * pitch + (pitch - width) / 2, width);
  });
}

/** A line over the steps in which each suspect grows. */
function drawSuspects(pen: Pen, box: Box, inks: Inks, picture: StepPicture): void {
  picture.suspects.forEach((suspect, at) => {
    const first = picture.bars.findIndex((bar) => bar.last >= suspect.since);
    if (first < 0) return;
    const x = box.x + (first * box.width) / picture.bars.length;
    const end = box.x + box.width;
    const y = box.y + at * SUSPECT_HEIGHT;
    pen.rect(x, y, end - x, 3, inks.alarm);
    const room = Math.max(x - box.x, end - x) - 34;
    const text = fitted(pen, suspect.text, room, 11);
    const isRight = end - x >= x - box.x;
    pen.text(isRight ? x : x - 6, isRight ? y + 13 : y + 5, text, {
      fill: inks.alarm,
      align: isRight ? "start" : "end",
      size: 11,
    });
  });
}

function drawChosen(pen: Pen, box: Box, inks: Inks, picture: StepPicture): void {
  if (picture.chosen === null) return;
  const pitch = box.width / picture.bars.length;
  pen.rect(box.x + picture.chosen * pitch, box.y, pitch, box.height, inks.chosen);
}

function drawNumbers(pen: Pen, box: Box, inks: Inks, picture: StepPicture): void {
  const pitch = box.width / picture.bars.length;
  const every = Math.max(1, Math.ceil(56 / pitch));
  picture.bars.forEach((bar, at) => {
    if (at % every !== 0) return;
    const x = box.x + (at + 0.5) * pitch;
    const number = String(picture.numbers[bar.first] ?? bar.first);
    const whole = `${number}, not finished`;
    const isNamed = bar.last === picture.unfinished && pen.measure(whole) < pitch;
    pen.text(x, box.y + box.height + 16, isNamed ? whole : number, {
      fill: inks.quiet,
      align: "middle",
    });
  });
  pen.text(box.x - 8, box.y + box.height + 16, "step", { fill: inks.quiet, align: "end" });
}

function legend(
  pen: Pen,
  box: Box,
  inks: Inks,
  entries: readonly (readonly [string, string])[],
): void {
  let x = box.x;
  for (const [colour, text] of entries) {
    pen.rect(x, box.y - 17, 10, 10, colour);
    pen.text(x + 15, box.y - 8, text, { fill: inks.quiet });
    x += 15 + pen.measure(text) + 18;
  }
}
