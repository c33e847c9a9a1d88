// Chooses the simulated settings that are shown first.

import type { Simulation } from "../../api/types.gen";

/** The run with the least reserved bytes; if every run fails, the one that fails last. */
export function bestRun(
  sweep: Pick<Simulation, "runs" | "best">,
): Simulation["runs"][number] | undefined {
  if (sweep.best !== null) return sweep.runs[sweep.best];
  const end = (run: Simulation["runs"][number]) => run.oom?.event ?? Number.POSITIVE_INFINITY;
  return [...sweep.runs].sort(
    (one, other) => end(other) - end(one) || one.peak_reserved - other.peak_reserved,
  )[0];
}

/** The name of the first run in the list of settings. */
export function bestName(sweep: Pick<Simulation, "runs" | "best"> | undefined | null): string {
  const run = sweep && bestRun(sweep);
  if (!run) return "the best";
  const setting = run.alloc_conf || "the default";
  return sweep.best === null && run.oom ? `fails last: ${setting}` : `the best: ${setting}`;
}
