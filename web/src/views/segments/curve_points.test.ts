import { expect, it } from "vitest";
import { nearest } from "./curve_points";

it("finds the last point up to a time", () => {
  const points = [0, 1, 2].map((seconds) => ({ seconds }));
  expect([-1, 0, 0.9, 1, 5].map((at) => nearest(points, at))).toEqual([0, 0, 0, 1, 2]);
});
