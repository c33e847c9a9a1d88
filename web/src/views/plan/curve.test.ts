import { describe, expect, it } from "vitest";
import type { Plan, PlanTry } from "../../api/types.gen";
import { doubledTicks, placedPoints, pointAt } from "./curve_draw";
import { costOf, hasTimes, orderedTries, pointsOf } from "./order";

function tried(changes: string[], needed: number, slowDown: number | null): PlanTry {
  return { changes, needed, slow_down: slowDown, compute: null } as unknown as PlanTry;
}

const TRIES = [
  tried([], 100, 1),
  tried(["a", "b"], 60, 1.3),
  tried(["b"], 80, 1.2),
  tried(["a"], 90, 1.1),
  tried(["c"], 99, null),
];
const found = { capacity: 70, tries: TRIES, plan: null, floor_try: null } as unknown as Plan;
const size = { width: 500, height: 280 };

describe("tries", () => {
  it("begin with the program as it is, then every change alone, then combinations", () => {
    const names = orderedTries(found).map((one) => one.changes.join("+"));
    expect(names).toEqual(["", "c", "a", "b", "a+b"]);
  });

  it("begin with the plan where there is one", () => {
    const names = orderedTries({ ...found, plan: tried(["a", "b"], 60, 1.3) });
    expect(names.map((one) => one.changes.join("+"))).toEqual(["a+b", "", "c", "a", "b"]);
  });

  it("begin with what needs the least where nothing fits", () => {
    const names = orderedTries({ ...found, floor_try: tried(["a", "b"], 60, 1.3) });
    expect(names.map((one) => one.changes.join("+"))).toEqual(["a+b", "", "c", "a", "b"]);
  });

  it("are points in the order of their costs, where these are known", () => {
    expect(pointsOf(found).map((one) => one.changes.join("+"))).toEqual(["", "a", "b", "a+b"]);
    expect(hasTimes(found)).toBe(true);
  });

  it("cost operations where there are no times", () => {
    expect(costOf({ ...tried(["a"], 1, null), compute: 1.5 })).toBe(1.5);
  });
});

describe("the curve", () => {
  it("has more time to the right and more memory above", () => {
    const points = placedPoints(found, size);
    const [first, second] = [points[0], points[1]];
    expect(first && second && first.x < second.x && first.y < second.y).toBe(true);
  });

  it("finds the nearest point, and none far from all", () => {
    const [, second] = placedPoints(found, size);
    expect(pointAt(found, size, (second?.x ?? 0) + 5, (second?.y ?? 0) - 5)?.changes).toEqual([
      "a",
    ]);
    expect(pointAt(found, size, 80, 270)).toBeNull();
  });

  it("counts doublings where a try takes far longer than another", () => {
    expect(doubledTicks(-1.2, 3, 20)).toEqual([0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8]);
    expect(doubledTicks(-1.2, 3, 5)).toEqual([0.5, 1, 2, 4, 8]);
    const slow = { ...found, tries: [...TRIES, tried(["d"], 50, 8)] } as unknown as Plan;
    const [first, , , , last] = placedPoints(slow, size);
    const middle = placedPoints(
      { ...slow, tries: [...slow.tries, tried(["e"], 55, 2.83)] },
      size,
    )[4];
    expect(middle?.x).toBeCloseTo(((first?.x ?? 0) + (last?.x ?? 0)) / 2, 0);
  });
});
