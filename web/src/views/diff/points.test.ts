// @vitest-environment happy-dom
import { expect, it } from "vitest";
import type { DiffCurves } from "../../api/types.gen";
import { LIGHT } from "../../base/colours";
import { SvgPen } from "../../render/svg_pen";
import { drawCurves } from "./curves";
import { pointAt, stepped } from "./points";

const point = (position: number, allocated: number) => ({
  position,
  seconds: position * 10,
  allocated,
});
const a = [point(0, 0), point(1, 40), point(2, 20)];
const b = [point(0, 0), point(1, 80), point(1.5, 10)];
const side = (points: typeof a, peak: number) => ({
  device: "cuda:0",
  seconds: 20,
  peak: point(1, peak),
  at: point(1, peak),
  points,
});
const curves: DiffCurves = {
  axis: "steps",
  length: 2,
  highest: 80,
  curves: { a: side(a, 40), b: side(b, 80) },
};
const scales = { x: (position: number) => position * 100, y: (bytes: number) => 100 - bytes };

it("means the curve that is nearer", () => {
  expect(pointAt(curves, scales, 101, 25)).toEqual({ side: "b", point: b[1] });
  expect(pointAt(curves, scales, 99, 55)).toEqual({ side: "a", point: a[1] });
});

it("means the last point where nothing has changed since", () => {
  expect(pointAt(curves, scales, 170, 60)).toEqual({ side: "a", point: a[1] });
  expect(pointAt(curves, scales, 170, 88)).toEqual({ side: "b", point: b[2] });
});

it("goes from point to point, and not beyond the last", () => {
  expect(stepped(a, 10, 1)).toBe(a[2]);
  expect(stepped(a, 10, -1)).toBe(a[0]);
  expect(stepped(a, 20, 5)).toBe(a[2]);
  expect(stepped([], 0, 1)).toBeNull();
});

it("draws both curves and names the steps", () => {
  const pen = new SvgPen((text, size = 12) => text.length * size * 0.55);
  drawCurves(pen, { width: 800, height: 200 }, LIGHT, curves, 2);
  const picture = pen.document(800, 200, "diff");
  expect(picture).not.toContain("NaN");
  for (const text of ["from", "to", "step 0", "step 1"]) expect(picture).toContain(`>${text}<`);
  // What comes after the last step is none.
  const short = new SvgPen((text, size = 12) => text.length * size * 0.55);
  drawCurves(short, { width: 800, height: 200 }, LIGHT, curves, 1);
  expect(short.document(800, 200, "diff")).not.toContain(">step 1<");
});
