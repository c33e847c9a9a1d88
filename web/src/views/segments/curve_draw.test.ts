import { describe, expect, it } from "vitest";
import type { TimeAxis } from "../../base/axis";
import { LIGHT } from "../../base/colours";
import { SvgPen } from "../../render/svg_pen";
import { curveTime, curveX, drawCurve } from "./curve_draw";

/** Ten seconds, of which eight are idle and take a tenth of the width. */
const AXIS: TimeAxis = {
  by: "time",
  length: 2.2,
  knots: [
    { seconds: 0, position: 0 },
    { seconds: 1, position: 1 },
    { seconds: 9, position: 1.2 },
    { seconds: 10, position: 2.2 },
  ],
  breaks: [{ from: 1, to: 9 }],
};
const WIDTH = 236;

describe("the curve of wasted memory", () => {
  it("makes an idle stretch as short as the strip above it does", () => {
    const places = [0, 1, 9, 10].map((seconds) => Math.round(curveX(AXIS, WIDTH, seconds)));
    expect(places).toEqual([8, 108, 128, 228]);
  });

  it("finds the time at a place, within an idle stretch too", () => {
    for (const seconds of [0, 0.5, 1, 5, 9, 9.5, 10])
      expect(curveTime(AXIS, WIDTH, curveX(AXIS, WIDTH, seconds))).toBeCloseTo(seconds, 9);
  });

  it("draws its points and its cursor at these places", () => {
    const point = { reserved: 10, free: 4, unusable: 2, split: 1, rounding: 1, largest_free: 2 };
    const points = [0, 1, 9].map((seconds) => ({ ...point, seconds }));
    const pen = new SvgPen((text, size = 12) => text.length * size * 0.55);
    drawCurve(pen, { width: WIDTH, height: 80 }, LIGHT, points as never, AXIS, 9);
    const drawn = pen.document(WIDTH, 80, "curve");
    expect(drawn).toContain("128.5");
    expect(drawn).not.toContain("NaN");
    // There is no room for the figure beside the names: it stands below them.
    expect(drawn).toMatch(/y="28" [^>]*>wasted, at most 5 B/);
  });
});
