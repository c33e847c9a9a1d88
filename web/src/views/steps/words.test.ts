import { describe, expect, it } from "vitest";
import { stepBars } from "./bars";
import { barTitle, finishedGrowth, type Step, stepsSentence, suspectsSentence } from "./words";

function step(number: number, peak: number, end: number, growth: number | null): Step {
  const times = { from: number, to: number + 1, is_finished: true };
  return { number, ...times, peak, end, growth, phases: [] } as unknown as Step;
}

const STEPS = [step(0, 4096, 1024, null), step(1, 8192, 2048, 1024), step(2, 4096, 512, -1536)];

const UNFINISHED = STEPS.map((each, at) => ({ ...each, is_finished: at < 2 }));

describe("steps in words", () => {
  it("says which step has the highest peak, and what is left", () => {
    expect(stepsSentence(STEPS)).toBe(
      "3 steps; step 1 has the highest peak, 8.000 KiB; from the end of the first to the end of the last −512 B",
    );
  });

  it("does not take the end of the program for the growth of a step", () => {
    expect(stepsSentence(UNFINISHED)).toBe(
      "2 steps, and one that did not finish; step 1 has the highest peak, 8.000 KiB; from the end of the first to the end of the last +1.000 KiB",
    );
    expect(finishedGrowth(UNFINISHED).map((each) => each.growth)).toEqual([null, 1024, null]);
    expect(finishedGrowth(STEPS).map((each) => each.growth)).toEqual([null, 1024, -1536]);
  });

  it("has the peak of a program that failed in its first step", () => {
    const only = UNFINISHED.slice(2).map((each) => ({ ...each, number: 0 }));
    expect(stepsSentence(only)).toBe(
      "no finished step: step 0 did not finish; its peak is 4.000 KiB",
    );
    expect(stepsSentence([])).toBe("no steps");
  });

  it("names a step that did not finish", () => {
    const bars = stepBars(UNFINISHED, 1);
    expect(bars.map((bar) => barTitle(bar, UNFINISHED))).toEqual([
      "Step 0",
      "Step 1",
      "Step 2, not finished",
    ]);
    const wide = stepBars(UNFINISHED, 3)[0];
    expect(wide && barTitle(wide, UNFINISHED)).toBe("Steps 0 to 2, which did not finish");
  });

  it("says why it cannot find leaks", () => {
    const answer = { device: "cpu", steps: STEPS, leaks: null, leaks_missing: "too few" };
    expect(suspectsSentence(answer as unknown as Parameters<typeof suspectsSentence>[0])).toBe(
      "Too few.",
    );
  });
});
