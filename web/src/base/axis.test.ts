import { describe, expect, it } from "vitest";
import {
  axisTicks,
  axisUntil,
  lastTimeBefore,
  plainAxis,
  positionOf,
  secondsAt,
  type TimeAxis,
} from "./axis";

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

describe("an axis of time", () => {
  const axis = { by: "time", length: 5, knots, breaks: [{ from: 2, to: 10 }] } as const;

  it("has ticks beside what is idle, not in it", () => {
    const ticks = axisTicks(axis, { from: 0, to: 5 }, 5);
    expect(ticks.map((tick) => tick.text)).toEqual(["0 s", "1 s", "2 s", "10 s", "11 s", "12 s"]);
    expect(ticks.map((tick) => tick.position)).toEqual([0, 1, 2, 3, 4, 5]);
  });

  it("has ticks where nothing but an idle stretch is shown", () => {
    const ticks = axisTicks(axis, { from: 2.25, to: 2.75 }, 4);
    expect(ticks.map((tick) => tick.text)).toEqual(["4 s", "5 s", "6 s", "7 s", "8 s"]);
  });

  it("goes on with a recording that has grown", () => {
    expect(axisUntil(axis, 14).length).toBe(7);
    expect(axisUntil(plainAxis(3), 4).length).toBe(4);
  });
});

it("counts events in whole ones, and names steps", () => {
  const events = { ...plainAxis(9000), by: "events" } as const;
  const texts = (from: number, to: number, axis: TimeAxis) =>
    axisTicks(axis, { from, to }, 4).map((tick) => tick.text);
  expect(texts(0, 9000, events)).toEqual(["0", "5,000"]);
  expect(texts(7, 9, events)).toEqual(["7", "8", "9"]);
  const steps = { ...events, by: "steps" } as const;
  expect(texts(1, 3, steps)).toEqual(["step 1", "step 2", "step 3"]);
  expect(texts(1, 1.5, steps)).toEqual(["step 1", "step 1.2", "step 1.4"]);
  const last = axisTicks(steps, { from: 0, to: 4 }, 8, 3);
  expect(last.map((tick) => tick.text)).toEqual(["step 0", "step 1", "step 2"]);
});

it("a column ends before the first event of the next one", () => {
  expect(lastTimeBefore(plainAxis(1).knots, 0.5)).toBe(0.499999);
  expect(lastTimeBefore(plainAxis(1).knots, 0)).toBe(0);
});
