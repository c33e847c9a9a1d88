// @vitest-environment happy-dom
import { describe, expect, it } from "vitest";
import type { Timeline, TimelineTile } from "../../api/types.gen";
import { stepAround } from "../../model/step_window";
import { bandAt } from "./bands";
import { layout } from "./layout";
import { groupAt, highestIn } from "./look_up";
import { shapeAt } from "./ribbons";
import { inside } from "./window";

describe("a window", () => {
  it("stays in the recording, with its length", () => {
    expect(inside({ from: -1, to: 1 }, 10, 1)).toEqual({ from: 0, to: 2 });
    expect(inside({ from: 9, to: 12 }, 10, 1)).toEqual({ from: 7, to: 10 });
    expect(inside({ from: -5, to: 50 }, 10, 1)).toEqual({ from: 0, to: 10 });
  });

  it("is never shorter than what can be distinguished", () => {
    const { from, to } = inside({ from: 5, to: 5 }, 10, 4e-6);
    expect(to - from).toBeCloseTo(4e-6, 12);
  });
});

describe("the first window", () => {
  const steps = [
    { from: 0, to: 4 },
    { from: 4, to: 5 },
    { from: 5, to: 6 },
  ];
  it("is the step of the moment", () => {
    expect(stepAround(steps, 4.5, 7)).toEqual({ from: 4, to: 5 });
  });
  it("is what comes after the last step, where the program failed", () => {
    expect(stepAround(steps, 6.8, 7)).toEqual({ from: 6, to: 7 });
  });
  it("is the whole where a step is nearly all of it, or there are none", () => {
    expect(stepAround([{ from: 0, to: 9.5 }], 3, 10)).toBeNull();
    expect(stepAround([], 3, 10)).toBeNull();
  });
});

const timeline = {
  groups: [
    { name: "a", peak: 9 },
    { name: "b", peak: 9 },
    { name: "c", peak: 9 },
  ],
} as Timeline;
const tile = {
  level: 0,
  tile: 0,
  from: 0,
  to: 4,
  groups: [
    [1, 2, 3, 4],
    [5, 5, 5, 5],
    [2, 0, 9, 1],
  ],
  allocated: [8, 7, 17, 10],
  active: null,
  reserved: null,
  lowest: [0, 0, 0, 0],
  events: [1, 1, 9, 1],
} as TimelineTile;

describe("a height", () => {
  it("belongs to the group that is drawn there", () => {
    const column = { tile, index: 2 };
    expect(groupAt(column, timeline, new Set(), 2)).toEqual({ group: 0, bytes: 2 });
    expect(groupAt(column, timeline, new Set(), 10)).toEqual({ group: 2, bytes: 10 });
    expect(groupAt(column, timeline, new Set(), 17)).toBeNull();
  });

  it("counts the groups below that are switched off", () => {
    expect(groupAt({ tile, index: 2 }, timeline, new Set(["b"]), 4)).toEqual({
      group: 2,
      bytes: 9,
    });
  });
});

it("a column shows the moment at which it is highest", () => {
  expect(highestIn(tile, 0, 4)).toBe(3);
  expect(highestIn(tile, 0, 2)).toBe(1);
  expect(highestIn(tile, 3, 4)).toBe(4);
});

it("a ribbon is found at every height that it had", () => {
  const shape = { id: 7, category: 0, bytes: 10, xs: [0, 1, 2], ys: [0, 50, 50] };
  const ribbons = {
    level: 0,
    tile: 0,
    from: 0,
    to: 2,
    shapes: [shape],
    categories: ["unknown"],
    rest: [],
  };
  expect(shapeAt(ribbons, 0.5, 5)?.id).toBe(7);
  expect(shapeAt(ribbons, 1.5, 55)?.id).toBe(7);
  expect(shapeAt(ribbons, 1.5, 5)).toBeNull();
});

it("a moment lies in a band or in none", () => {
  const steps = [
    { from: 0, to: 1 },
    { from: 2, to: 3 },
  ];
  expect(bandAt(steps, 0.5)).toBe(steps[0]);
  expect(bandAt(steps, 1.5)).toBeNull();
  expect(bandAt(steps, 9)).toBeNull();
});

it("absent bands take no room", () => {
  const none = layout({ width: 800, height: 400 }, null).plot;
  const all = layout(
    { width: 800, height: 400 },
    {
      steps: [{ number: 0, from: 0, to: 1, is_finished: true }],
      stretches: [],
      markers: [],
      skipped: 0,
    },
  ).plot;
  expect(all.y - none.y).toBe(20);
  expect(all.y + all.height).toBe(none.y + none.height);
});
