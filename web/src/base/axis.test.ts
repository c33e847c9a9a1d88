import { expect, it } from "vitest";
import { positionOf, secondsAt } from "./axis";

const knots = [
  { seconds: 0, position: 0 },
  { seconds: 2, position: 2 },
  { seconds: 10, position: 3 },
  { seconds: 12, position: 5 },
];

it("is straight between two knots, both ways", () => {
  expect(positionOf(knots, 1)).toBe(1);
  expect(positionOf(knots, 6)).toBe(2.5);
  expect(positionOf(knots, 12)).toBe(5);
  for (const seconds of [0, 0.5, 2, 7, 11.25, 12])
    expect(secondsAt(knots, positionOf(knots, seconds))).toBeCloseTo(seconds, 9);
});

it("goes on beyond its ends", () => {
  expect(positionOf(knots, 13)).toBe(6);
  expect(secondsAt(knots, -1)).toBe(-1);
});

it("has one time where several events lie in it", () => {
  const jump = [
    { seconds: 0, position: 0 },
    { seconds: 5, position: 0 },
    { seconds: 6, position: 4 },
  ];
  expect(positionOf(jump, 3)).toBe(0);
  expect(secondsAt(jump, 2)).toBe(5.5);
});
