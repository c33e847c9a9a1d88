// Orders the tries: the plan, or what needs the least; the program without changes, single changes, combinations.

import type { Plan, PlanTry } from "../../api/types.gen";

/** The try that the answer is about: the plan, or without one what needs the least. */
export function firstTry(found: Plan): PlanTry | null {
  return found.plan ?? found.floor_try;
}

export function orderedTries(found: Plan): PlanTry[] {
  const group = (tried: PlanTry) =>
    isSameTry(tried, firstTry(found)) ? -1 : Math.min(2, tried.changes.length);
  return [...found.tries].sort(
    (one, other) => group(one) - group(other) || other.needed - one.needed,
  );
}

export function isSameTry(one: PlanTry | null, other: PlanTry | null): boolean {
  return one !== null && other !== null && one.changes.join() === other.changes.join();
}

/**
 * The cost of a try: time, or operations if the GPU profile has no rates; null if neither is known.
 */
export function costOf(tried: PlanTry): number | null {
  return tried.slow_down ?? tried.compute;
}

/** Whether costs are times instead of operations. */
export function hasTimes(found: Plan): boolean {
  return found.tries.some((tried) => tried.slow_down !== null);
}

/** The tries on the curve of memory against cost, the cheapest first. */
export function pointsOf(found: Plan): PlanTry[] {
  const cost = (tried: PlanTry) => costOf(tried) ?? 0;
  return found.tries
    .filter((tried) => costOf(tried) !== null)
    .sort((one, other) => cost(one) - cost(other) || other.needed - one.needed);
}
