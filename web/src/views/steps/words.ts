// Steps in words: for the line above the picture, for cards, and for those who do not see the picture.

import type { Steps } from "../../api/types.gen";
import { counted, formatBytes, formatChange } from "../../base/bytes";
import type { Bar } from "./bars";

export type Step = Steps["steps"][number];

/** `109 steps; step 7 is the highest with 2.388 GiB; from the first end to the last +46.95 MiB`. */
export function stepsSentence(steps: readonly Step[]): string {
  const first = steps[0];
  const last = steps.at(-1);
  if (!first || !last) return "no steps";
  const highest = steps.reduce((best, step) => (step.peak > best.peak ? step : best));
  const grown =
    steps.length > 1
      ? `; from the end of the first to the end of the last ${formatChange(last.end - first.end)}`
      : "";
  const peak = formatBytes(highest.peak);
  return `${counted(steps.length, "step")}; step ${highest.number} rose highest, to ${peak}${grown}`;
}

/** `2 lines hold more from step to step`, or that none does, or why that cannot be said. */
export function suspectsSentence(answer: Steps): string {
  if (!answer.leaks) return answer.leaks_missing ?? "";
  const { total_rows, steps } = answer.leaks;
  if (total_rows === 0)
    return `No suspects: no line holds more from step to step, in ${counted(steps, "step")} after the first.`;
  return `${counted(total_rows, "line holds", "lines hold")} more from step to step.`;
}

/** `Step 7`, or `Steps 40 to 44`. */
export function barTitle(bar: Bar, steps: readonly Step[]): string {
  const first = steps[bar.first]?.number ?? bar.first;
  const last = steps[bar.last]?.number ?? bar.last;
  return first === last ? `Step ${first}` : `Steps ${first} to ${last}`;
}

/** Names and values of a bar. */
export function barFacts(bar: Bar, steps: readonly Step[]): [string, string][] {
  const isMany = bar.first !== bar.last;
  const highest = steps[bar.highest]?.number ?? bar.highest;
  return [
    ["Highest", `${formatBytes(bar.peak)}${isMany ? ` (step ${highest})` : ""}`],
    [isMany ? "Left at an end, at most" : "Left at its end", formatBytes(bar.end)],
    ["Growth", formatChange(bar.growth)],
  ];
}
