import { describe, expect, it } from "vitest";
import { NARROWEST, phaseNames, type StepLevels, stepBars, stepsPerBar } from "./bars";

function steps(...peaks: number[]): StepLevels[] {
  return peaks.map((peak, number) => ({
    number,
    peak,
    end: peak / 2,
    growth: number === 0 ? null : 1,
    phases: [{ name: "forward", peak: peak - 1 }],
  }));
}

describe("bars of steps", () => {
  it("has a bar for each step where there is room", () => {
    expect(stepsPerBar(109, 900)).toBe(1);
    expect(stepBars(steps(3, 5, 4), 1).map((bar) => bar.peak)).toEqual([3, 5, 4]);
  });

  it("never has bars that are too narrow to be pointed at", () => {
    for (const count of [1, 10, 181, 5000, 100_000]) {
      const bars = Math.ceil(count / stepsPerBar(count, 900));
      expect(bars * NARROWEST).toBeLessThanOrEqual(900);
    }
    expect(stepsPerBar(10, 0)).toBe(10);
  });

  it("keeps the highest step of many", () => {
    const many = steps(...Array.from({ length: 10_000 }, (_, at) => (at === 7_777 ? 900 : 100)));
    const bars = stepBars(many, stepsPerBar(many.length, 900));
    const highest = bars.filter((bar) => bar.peak === 900);
    expect(highest.map((bar) => bar.highest)).toEqual([7_777]);
    expect(bars.reduce((sum, bar) => sum + bar.last - bar.first + 1, 0)).toBe(10_000);
  });

  it("adds up what the steps of a bar grew, and leaves out the first step, which grew from nothing", () => {
    expect(stepBars(steps(2, 2, 2, 2), 2).map((bar) => bar.growth)).toEqual([1, 2]);
  });

  it("takes the highest of each phase, also of one that not all steps have", () => {
    const some: StepLevels[] = [
      { number: 0, peak: 9, end: 1, growth: null, phases: [{ name: "forward", peak: 9 }] },
      {
        number: 1,
        peak: 8,
        end: 1,
        growth: 0,
        phases: [
          { name: "backward", peak: 8 },
          { name: "forward", peak: 4 },
        ],
      },
    ];
    expect(phaseNames(some)).toEqual(["forward", "backward"]);
    expect(stepBars(some, 2).map((bar) => bar.phases)).toEqual([[9, 8]]);
    expect(stepBars(some, 1).map((bar) => bar.phases)).toEqual([
      [9, 0],
      [4, 8],
    ]);
  });

  it("has no bars without steps", () => {
    expect(stepBars([], 1)).toEqual([]);
  });
});
