import { describe, expect, it } from "vitest";
import { finishedGrowth, type Step, stepsSentence, suspectsSentence } from "./words";

function step(number: number, peak: number, end: number, growth: number | null): Step {
  return { number, from: number, to: number + 1, peak, end, growth, phases: [] } as unknown as Step;
}

const STEPS = [step(0, 4096, 1024, null), step(1, 8192, 2048, 1024), step(2, 4096, 512, -1536)];

describe("steps in words", () => {
  it("says which step has the highest peak, and what is left", () => {
    expect(stepsSentence(STEPS, 3)).toBe(
      "3 steps; step 1 has the highest peak, 8.000 KiB; from the end of the first to the end of the last −512 B",
    );
  });

  it("does not take the end of the program for the growth of a step", () => {
    expect(stepsSentence(STEPS, 2)).toBe(
      "2 steps, and one that did not end; step 1 has the highest peak, 8.000 KiB; from the end of the first to the end of the last +1.000 KiB",
    );
    expect(finishedGrowth(STEPS, 2).map((each) => each.growth)).toEqual([null, 1024, null]);
    expect(finishedGrowth(STEPS, 3).map((each) => each.growth)).toEqual([null, 1024, -1536]);
  });

  it("says why it cannot find leaks", () => {
    const answer = { device: "cpu", steps: STEPS, leaks: null, leaks_missing: "too few" };
    expect(suspectsSentence(answer as unknown as Parameters<typeof suspectsSentence>[0])).toBe(
      "Too few.",
    );
  });
});
