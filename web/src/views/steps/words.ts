// Steps as sentences, for the line above the picture, for cards and for screen readers.

import type { Steps } from "../../api/types.gen";
import { counted, formatBytes, formatChange } from "../../base/bytes";
import { capital, stepName } from "../../base/sentences";
import type { Bar } from "./bars";

export type Step = Steps["steps"][number];

/** `109 steps; step 7 has the highest peak, 2.388 GiB; from the end of the first to the end of the last +46.95 MiB`. */
export function stepsSentence(steps: readonly Step[]): string {
  const whole = steps.filter((step) => step.is_finished);
  const first = whole[0];
  const last = whole.at(-1);
  const only = steps[0];
  if (!only) return "no steps";
  if (!first || !last)
    return `no finished step: step ${only.number} did not finish; its peak is ${formatBytes(only.peak)}`;
  const highest = steps.reduce((best, step) => (step.peak > best.peak ? step : best));
  const grown =
    whole.length > 1
      ? `; from the end of the first to the end of the last ${formatChange(last.end - first.end)}`
      : "";
  const tail = whole.length < steps.length ? ", and one that did not finish" : "";
  const peak = formatBytes(highest.peak);
  return `${counted(whole.length, "step")}${tail}; step ${highest.number} has the highest peak, ${peak}${grown}`;
}

/** The steps that finished: the end of a program is not the growth of a step. */
export function finishedGrowth(steps: readonly Step[]): Step[] {
  return steps.map((step) => (step.is_finished ? step : { ...step, growth: null }));
}

/** `2 lines grow from step to step`, or that none does, or why that is unknown. */
export function suspectsSentence(answer: Steps): string {
  if (!answer.leaks)
    return answer.leaks_missing === null ? "" : `${capital(answer.leaks_missing)}.`;
  const { total_rows, steps } = answer.leaks;
  if (total_rows === 0)
    return `No leak found: no line grows from step to step, in ${counted(steps, "step")} after the first.`;
  return `${counted(total_rows, "line grows", "lines grow")} from step to step.`;
}

/** `Step 7`, or `Steps 40 to 44`. */
export function barTitle(bar: Bar, steps: readonly Step[]): string {
  const first = steps[bar.first];
  const last = steps[bar.last];
  if (!first || !last) return "";
  if (first === last) return capital(stepName(first));
  return `Steps ${first.number} to ${last.number}${last.is_finished ? "" : ", which did not finish"}`;
}

/** Names and values of a bar. */
export function barFacts(bar: Bar, steps: readonly Step[]): [string, string][] {
  const isMany = bar.first !== bar.last;
  const highest = steps[bar.highest]?.number ?? bar.highest;
  return [
    ["Peak", `${formatBytes(bar.peak)}${isMany ? ` (step ${highest})` : ""}`],
    [isMany ? "Allocated at an end, at most" : "Allocated at its end", formatBytes(bar.end)],
    ["Growth", formatChange(bar.growth)],
  ];
}
