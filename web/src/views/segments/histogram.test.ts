import { expect, it } from "vitest";
import { histogram, usableFrom } from "./histogram";

it("counts pieces by doublings, without gaps between the smallest and the largest", () => {
  expect(histogram([512, 1023, 1024, 5000], 1535)).toEqual([
    { from: 512, count: 2, bytes: 1535, tooSmall: 1535 },
    { from: 1024, count: 1, bytes: 1024, tooSmall: 0 },
    { from: 2048, count: 0, bytes: 0, tooSmall: 0 },
    { from: 4096, count: 1, bytes: 5000, tooSmall: 0 },
  ]);
});

it("tells what is too small from what is not in one bin", () => {
  expect(histogram([1100, 1500], 1100)).toEqual([
    { from: 1024, count: 2, bytes: 2600, tooSmall: 1100 },
  ]);
});

it("has no bins without pieces", () => {
  expect(histogram([], 0)).toEqual([]);
  expect(histogram([0], 0)).toEqual([]);
});

it("finds the size from which on pieces are of use", () => {
  expect(usableFrom([8, 1, 4, 2], 7)).toBe(8);
  expect(usableFrom([8, 1, 4, 2], 0)).toBe(1);
  expect(usableFrom([8, 1], 9)).toBe(Number.POSITIVE_INFINITY);
});
