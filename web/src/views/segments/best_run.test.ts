import { expect, it } from "vitest";
import type { Simulation } from "../../api/types.gen";
import { bestName, bestRun } from "./best_run";

function run(alloc_conf: string, peak_reserved: number, event: number): Simulation["runs"][number] {
  const oom = { event, step: null, seconds: 1, requested: 1 };
  return { alloc_conf, memory: null, peak_allocated: 1, peak_reserved, waste: 0, retries: 0, oom };
}

it("shows the best run, or the one that fails last where all fail", () => {
  const runs = [run("", 9, 5), run("b", 9, 7), run("c", 8, 7)];
  expect(bestRun({ runs, best: 0 })?.alloc_conf).toBe("");
  expect(bestRun({ runs, best: null })?.alloc_conf).toBe("c");
  expect(bestRun({ runs: [], best: null })).toBeUndefined();
});

it("calls a run that fails by what it does", () => {
  const runs = [run("", 9, 5), run("b", 9, 7)];
  expect(bestName({ runs: runs.map((one) => ({ ...one, oom: null })), best: 0 })).toBe(
    "the best: the default",
  );
  expect(bestName({ runs, best: null })).toBe("fails last: b");
  expect(bestName(null)).toBe("the best");
});
