// A plan as sentences, in the terminal's words.

import type { NextStep, Numerics, Plan, PlanTry } from "../api/types.gen";
import { formatBytes } from "../base/bytes";

/** `fused + checkpoint=12`. */
export function tryName(tried: Pick<PlanTry, "changes">): string {
  return tried.changes.length === 0 ? "unchanged" : tried.changes.join(" + ");
}

/** Whether the program fits, and with what. */
export function verdict(found: Plan): string {
  const { gpu, capacity, plan } = found;
  if (plan && plan.changes.length === 0)
    return `Fits as it is: ${gpu}, ${formatBytes(capacity - plan.needed)} of ${formatBytes(capacity)} are left`;
  if (plan) return `Fits with ${tryName(plan)}: ${gpu}, ${headroom(found, plan)}`;
  if (found.unchanged && found.not_tried.length === 0)
    return `Nothing that was tried fits: ${gpu} has ${formatBytes(capacity)}, and the program needs at least ${formatBytes(found.floor)}`;
  return `No plan was found in time: ${gpu} has ${formatBytes(capacity)}`;
}

/** `Without changes it needs 1.231 GiB: 518.0 MiB reserved (467.6 MiB allocated) and 742.5 MiB …`. */
export function unchangedSentence({ needed, peak_reserved, peak_allocated }: PlanTry): string {
  const torch = `${formatBytes(peak_reserved)} reserved (${formatBytes(peak_allocated)} allocated)`;
  const outside = formatBytes(Math.max(0, needed - peak_reserved));
  return `Without changes it needs ${formatBytes(needed)}: ${torch} and ${outside} outside torch, with the CUDA context.`;
}

/** What fits where no change is enough, as the terminal says it. */
export function nextStepSentence(step: NextStep): string {
  const { gpu, capacity, gpus, profile, changes, needed } = step;
  const on = gpus > 1 ? `${gpus} × ${gpu} (--shard-over ${gpus})` : `${gpu} (--gpu ${profile})`;
  const how = changes.length === 0 ? "as it is" : `with ${tryName(step)}`;
  return `It fits on ${on} ${how}, as tried: ${formatBytes(needed)} of ${formatBytes(capacity)}.`;
}

function headroom({ capacity }: Plan, plan: PlanTry): string {
  return plan.needed <= capacity
    ? `${formatBytes(capacity - plan.needed)} of ${formatBytes(capacity)} are left`
    : `${formatBytes(capacity)} are enough because torch frees cached blocks`;
}

const RESULTS: Readonly<Record<Numerics, string>> = {
  same: "results stay the same",
  rounding: "results differ by rounding alone",
  changed: "results are computed in another precision",
  training: "the training is another one: compare what it learns",
};

/** The cost of a try or a change. */
export function costSentence(
  cost: Pick<PlanTry, "slow_down" | "slows" | "numerics"> & { readonly gpus?: number },
): string {
  const { slow_down: slowDown, slows, numerics, gpus = 1 } = cost;
  const more = gpus > 1 ? `${gpus} GPUs, each with the batch of the program; ` : "";
  const longer = slows ? "steps take longer" : "steps take no longer";
  const time = slowDown === null ? longer : `steps take ~${slowDown.toFixed(1)} × as long`;
  return `${more}${time}; ${RESULTS[numerics]}`;
}

/** `1.15 ×`, as in the terminal; `?` if unknown. */
export function formatMultiple(multiple: number | null): string {
  return multiple === null ? "?" : `${multiple.toFixed(2)} ×`;
}

/** The verdict of a try beside its bar. */
export interface FitWords {
  readonly kind: "fits" | "fails" | "tight";
  readonly text: string;
  readonly hint?: string;
}

/**
 * Whether a try fits. A try that fits only by freeing cached blocks gets no check mark: its bar
 * exceeds the limit.
 */
export function fitWords(tried: Pick<PlanTry, "fits" | "needed">, capacity: number): FitWords {
  if (!tried.fits) return { kind: "fails", text: "✗ no" };
  if (tried.needed <= capacity) return { kind: "fits", text: "✓ yes" };
  return {
    kind: "tight",
    text: "if freed",
    hint: "With more memory it would need that much; on this GPU torch frees cached blocks, and it fits",
  };
}
