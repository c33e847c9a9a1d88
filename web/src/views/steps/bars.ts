// Steps as bars: with too many steps for the width, a bar represents several and shows the highest.
// No drawing.

/** The values of a step that a bar shows. */
export interface StepLevels {
  readonly number: number;
  readonly peak: number;
  readonly end: number;
  readonly growth: number | null;
  readonly phases: readonly { readonly name: string; readonly peak: number }[];
}

export interface Bar {
  /** The first and last step, by index in the answer. */
  readonly first: number;
  readonly last: number;
  /** The index of the step with the highest peak. */
  readonly highest: number;
  readonly peak: number;
  /** The highest end of a step. */
  readonly end: number;
  /** The growth of all steps together. */
  readonly growth: number;
  /** The highest of each phase, in the order of {@link phaseNames}. */
  readonly phases: readonly number[];
}

/** The smallest width of a bar that can be pointed at. */
export const NARROWEST = 5;

/** The phases of all steps, in the order of their first appearance. */
export function phaseNames(steps: readonly StepLevels[]): string[] {
  return [...new Set(steps.flatMap((step) => step.phases.map((phase) => phase.name)))];
}

/** The number of steps in a bar: as few as the width allows. */
export function stepsPerBar(steps: number, width: number): number {
  return Math.max(1, Math.ceil(steps / Math.max(1, Math.floor(width / NARROWEST))));
}

/** Bars from left to right, each of this many steps. */
export function stepBars(steps: readonly StepLevels[], perBar: number): Bar[] {
  const names = phaseNames(steps);
  const bars: Bar[] = [];
  for (let first = 0; first < steps.length; first += perBar) {
    bars.push(bar(steps, names, first, Math.min(first + perBar, steps.length) - 1));
  }
  return bars;
}

function bar(
  steps: readonly StepLevels[],
  names: readonly string[],
  first: number,
  last: number,
): Bar {
  let [highest, peak, end, growth] = [first, 0, 0, 0];
  const phases = names.map(() => 0);
  for (let at = first; at <= last; at += 1) {
    const step = steps[at];
    if (!step) continue;
    if (step.peak > peak) [highest, peak] = [at, step.peak];
    end = Math.max(end, step.end);
    growth += step.growth ?? 0;
    for (const phase of step.phases) {
      const index = names.indexOf(phase.name);
      phases[index] = Math.max(phases[index] ?? 0, phase.peak);
    }
  }
  return { first, last, highest, peak, end, growth, phases };
}
