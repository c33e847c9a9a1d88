// The first window of a view over time: the step with the peak or with the failed allocation.

import { go, range, secondsField } from "./address";
import type { Subject } from "./recording";

interface TimeWindow {
  readonly from: number;
  readonly to: number;
}

/** A step that is longer than this share of a recording is not shown alone. */
const MOST_OF_ALL = 0.9;

/** Recordings and devices whose window was set already: later visits keep it. */
const opened = new Set<string>();

/**
 * Sets the window to the step of a time, once, if the address has no window: the rest is often
 * idle.
 */
export function openOnStep(about: Subject, steps: readonly TimeWindow[], at: number | null): void {
  const key = `${about.trace} ${about.device}`;
  if (opened.has(key)) return;
  opened.add(key);
  const step = at === null ? null : stepAround(steps, at, about.seconds);
  if (!step || range.peek()) return;
  go({ from: secondsField(step.from), to: secondsField(step.to) }, { replaces: true });
}

/** The step of a time, or the rest after the last ended step; null if that is nearly everything. */
export function stepAround(
  steps: readonly TimeWindow[],
  at: number,
  seconds: number,
): TimeWindow | null {
  const last = steps.at(-1);
  if (!last) return null;
  const step =
    at > last.to
      ? { from: last.to, to: seconds }
      : (steps.find((one) => one.from <= at && at <= one.to) ?? null);
  return step && step.to > step.from && step.to - step.from < seconds * MOST_OF_ALL ? step : null;
}
