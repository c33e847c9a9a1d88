import { expect, it } from "vitest";
import { changeBars } from "./bars";

it("draws growth to the right and shrinking to the left of one line, to one scale", () => {
  const { zero, bars } = changeBars([30, -10, 15]);
  expect(zero).toBe(0.25);
  expect(bars).toEqual([
    { left: 0.25, width: 0.75 },
    { left: 0, width: 0.25 },
    { left: 0.25, width: 0.375 },
  ]);
});

it("gives the whole width to one side when nothing went the other way", () => {
  expect(changeBars([8, 4]).zero).toBe(0);
  expect(changeBars([-8, -4])).toEqual({
    zero: 1,
    bars: [
      { left: 0, width: 1 },
      { left: 0.5, width: 0.5 },
    ],
  });
});

it("has bars of no width where nothing changed", () => {
  expect(changeBars([0]).bars).toEqual([{ left: 0, width: 0 }]);
  expect(changeBars([]).bars).toEqual([]);
});
