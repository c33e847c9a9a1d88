// What the page is opened with in the tests: one of each kind.

import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { repository } from "./program";

const zoo = (name: string) => repository(`fixtures/recordings/zoo/${name}.pickle.gz`);

/** On the CPU, with a leak and with names like markup. */
export const CPU = repository("fixtures/page/hostile.flood");
export const RESNET = zoo("resnet18_fp32");
export const LSTM = zoo("lstm");
export const NEUMF = zoo("neumf");
/** Three steps in half a second, after two waits of some seconds. */
export const LLAMA = repository("fixtures/recordings/gallery/llama.flood");
/** Does not fit as it is: with the answer of `floodmark plan`. */
export const PLAN = repository("fixtures/page/plan.flood");
/** Ran out of memory. */
export const OOM = repository("fixtures/recordings/allocator/default-oom.pickle.gz");

/** Eight ranks of two nodes; rank 5 has a cache, the first rank of each node gathers a checkpoint. */
export const NODES = repository("fixtures/page/ranks");

/** A folder as a job of four ranks leaves it; one of them stands out. */
export function folderOfRanks(): { readonly path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), "floodmark-ranks-"));
  [NEUMF, NEUMF, RESNET, NEUMF].forEach((file, rank) => {
    symlinkSync(file, join(path, `rank${rank}.pickle.gz`));
  });
  return { path, remove: () => rmSync(path, { recursive: true }) };
}
