// Draws memory against the time of a step: a point for each try, the Pareto front joined, the limit
// as a line.

import type { Plan, PlanTry } from "../../api/types.gen";
import { formatBytes, formatTick } from "../../base/bytes";
import type { Inks } from "../../base/colours";
import { byteTicks, multiples, timeTicks } from "../../base/ticks";
import { type Box, BYTE_AXIS_WIDTH, type Scale, toPixel } from "../../render/axes";
import type { Pen, Size } from "../../render/pen";
import { costOf, isSameTry, pointsOf } from "./order";

const TOP = 12;
const RIGHT = 20;
const BOTTOM = 40;
/** The search distance around the pointer. */
const NEAR = 28;
/** The margin beside the outermost points, as a share of the picture. */
const BESIDE = 0.08;
/** The ratio of slowest to fastest try from which the axis is logarithmic. */
const LEAST_DOUBLED = 3;
/** Ticks of a logarithmic axis, in each doubling. */
const DOUBLED = [1, 1.5] as const;

export interface CurvePicture {
  readonly found: Plan;
  /** `time of a step`. */
  readonly axis: string;
  readonly pointed: PlanTry | null;
}

export interface CurvePoint {
  readonly tried: PlanTry;
  readonly x: number;
  readonly y: number;
}

interface Layout {
  readonly box: Box;
  /** Costs, or their logarithms. */
  readonly across: Scale;
  readonly isDoubled: boolean;
  readonly x: (cost: number) => number;
  /** The bytes at the bottom and the top. */
  readonly lowest: number;
  readonly highest: number;
  readonly y: (bytes: number) => number;
}

function layoutOf(found: Plan, size: Size): Layout {
  const box: Box = {
    x: BYTE_AXIS_WIDTH,
    y: TOP,
    width: Math.max(1, size.width - BYTE_AXIS_WIDTH - RIGHT),
    height: Math.max(1, size.height - TOP - BOTTOM),
  };
  const points = pointsOf(found);
  const costs = points.map((tried) => costOf(tried) ?? 1);
  const [low, high] = [Math.min(1, ...costs), Math.max(1, ...costs)];
  const isDoubled = low > 0 && high / low >= LEAST_DOUBLED;
  const along = (cost: number) => (isDoubled ? Math.log2(cost) : cost);
  const beside = Math.max(isDoubled ? 0.2 : 0.02, (along(high) - along(low)) * BESIDE);
  const across = {
    from: along(low) - beside,
    to: along(high) + beside,
    start: box.x,
    length: box.width,
  };
  const needs = [found.capacity, ...points.map((tried) => tried.needed)];
  const [least, most] = [Math.min(...needs), Math.max(1, ...needs)];
  const room = Math.max(0.02 * most, (most - least) * BESIDE * 2);
  // High points can be distinguished better if the axis does not begin at 0.
  const lowest = least > most / 2 ? least - room : 0;
  const highest = most + room;
  return {
    box,
    across,
    isDoubled,
    x: (cost) => toPixel(across, along(cost)),
    lowest,
    highest,
    y: (bytes) => box.y + box.height * (1 - (bytes - lowest) / (highest - lowest)),
  };
}

/** The positions of the points, the cheapest first. */
export function placedPoints(found: Plan, size: Size): CurvePoint[] {
  const { x, y } = layoutOf(found, size);
  return pointsOf(found).map((tried) => ({
    tried,
    x: x(costOf(tried) ?? 1),
    y: y(tried.needed),
  }));
}

/** The point nearest to a position, if one is near. */
export function pointAt(found: Plan, size: Size, x: number, y: number): PlanTry | null {
  let nearest: PlanTry | null = null;
  let least = NEAR;
  for (const point of placedPoints(found, size)) {
    const distance = Math.hypot(point.x - x, point.y - y);
    if (distance < least) [nearest, least] = [point.tried, distance];
  }
  return nearest;
}

export function drawCurve(pen: Pen, size: Size, inks: Inks, picture: CurvePicture): void {
  const { found, pointed } = picture;
  const layout = layoutOf(found, size);
  const { box, y } = layout;
  drawNeedAxis(pen, layout, inks);
  drawCostAxis(pen, layout, inks, picture.axis);
  const points = placedPoints(found, size);
  const joined = points.filter((point) => point.tried.is_on_curve);
  if (joined.length > 1)
    pen.line(
      joined.flatMap((point) => [point.x, point.y]),
      { stroke: inks.accent, width: 1.5 },
    );
  drawLimit(pen, box, y(found.capacity), inks, found.capacity);
  for (const point of points) drawPoint(pen, point, inks, isSameTry(point.tried, found.plan));
  for (const point of points) {
    if (isSameTry(point.tried, found.plan)) drawName(pen, point, "plan", box, inks);
    else if (point.tried.changes.length === 0) drawName(pen, point, "unchanged", box, inks);
    if (isSameTry(point.tried, pointed))
      pen.line(ring(point.x, point.y, 10), { stroke: inks.ink, width: 2 });
  }
}

function drawNeedAxis(pen: Pen, { box, lowest, highest, y }: Layout, inks: Inks): void {
  const { step } = byteTicks(highest - lowest, Math.max(2, Math.floor(box.height / 48)));
  for (const bytes of multiples(lowest, highest, step)) {
    const at = Math.round(y(bytes)) + 0.5;
    pen.line([box.x, at, box.x + box.width, at], { stroke: inks.grid });
    pen.text(box.x - 8, at, formatTick(bytes), {
      fill: inks.quiet,
      align: "end",
      baseline: "middle",
    });
  }
  const [left, bottom] = [box.x, box.y + box.height + 0.5];
  pen.line([left, bottom, left + box.width, bottom], { stroke: inks.edge });
}

function drawCostAxis(pen: Pen, layout: Layout, inks: Inks, name: string): void {
  const { box, across, x } = layout;
  const bottom = box.y + box.height;
  const most = Math.max(2, Math.floor(box.width / 64));
  const ticks = layout.isDoubled
    ? doubledTicks(across.from, across.to, most)
    : timeTicks(across.from, across.to, most).at;
  for (const cost of ticks) {
    const at = Math.round(x(cost)) + 0.5;
    pen.line([at, bottom, at, bottom + 4], { stroke: inks.edge });
    pen.text(at, bottom + 17, tickText(cost), { fill: inks.quiet, align: "middle" });
  }
  pen.text(box.x + box.width / 2, bottom + 34, name, { fill: inks.quiet, align: "middle" });
}

/** `1.5 ×`, without trailing zeros. */
function tickText(multiple: number): string {
  return `${Number(multiple.toFixed(2))} ×`;
}

/**
 * Ticks of a logarithmic axis: 0.5 ×, 0.75 ×, 1 ×, 1.5 ×, 2 ×; only powers of two with little
 * space.
 */
export function doubledTicks(from: number, to: number, most: number): number[] {
  const factors = 2 * (to - from) <= most ? DOUBLED : [1];
  const found: number[] = [];
  for (let power = Math.floor(from); power <= to; power += 1) {
    for (const factor of factors) {
      const at = Math.log2(factor) + power;
      if (at >= from && at <= to) found.push(factor * 2 ** power);
    }
  }
  return found;
}

function drawLimit(pen: Pen, box: Box, at: number, inks: Inks, bytes: number): void {
  const y = Math.round(at) + 0.5;
  pen.line([box.x, y, box.x + box.width, y], { stroke: inks.limit, width: 2, dash: [7, 4] });
  pen.text(box.x + box.width, y - 6, `${formatBytes(bytes)} of the GPU`, {
    fill: inks.limit,
    align: "end",
    isBold: true,
  });
}

/**
 * Filled if the try fits, else an outline; a square if results differ by more than rounding.
 */
function drawPoint(pen: Pen, { tried, x, y }: CurvePoint, inks: Inks, isPlan: boolean): void {
  const size = isPlan ? 7 : tried.is_on_curve ? 5 : 4;
  const colour = isPlan || tried.is_on_curve ? inks.accent : inks.reserved;
  const isOther = tried.numerics === "changed" || tried.numerics === "training";
  const outline = isOther ? square(x, y, size) : ring(x, y, size);
  pen.area(outline, tried.fits ? colour : inks.panel);
  pen.line(outline, { stroke: colour, width: 2 });
  if (isPlan) pen.line(ring(x, y, size + 4), { stroke: inks.accent, width: 1.5 });
}

function drawName(pen: Pen, point: CurvePoint, name: string, box: Box, inks: Inks): void {
  const width = pen.measure(name, 12, true);
  const isRight = point.x + 16 + width <= box.x + box.width;
  const x = point.x + (isRight ? 14 : -14 - width);
  const y = Math.max(box.y + 8, point.y - 13);
  // Cover the lines behind the name.
  pen.rect(x - 2, y - 8, width + 4, 16, inks.panel);
  pen.text(x, y, name, { fill: inks.ink, baseline: "middle", isBold: true });
}

function ring(x: number, y: number, radius: number): number[] {
  const points: number[] = [];
  const CORNERS = 20;
  for (let corner = 0; corner <= CORNERS; corner += 1) {
    const angle = (2 * Math.PI * corner) / CORNERS;
    points.push(x + radius * Math.cos(angle), y + radius * Math.sin(angle));
  }
  return points;
}

function square(x: number, y: number, half: number): number[] {
  return [
    x - half,
    y - half,
    x + half,
    y - half,
    x + half,
    y + half,
    x - half,
    y + half,
    x - half,
    y - half,
  ];
}
