import { describe, expect, it } from "vitest";
import type { NextStep, Plan, PlanTry } from "../api/types.gen";
import {
  costSentence,
  fitWords,
  formatMultiple,
  nextStepSentence,
  tryName,
  unchangedSentence,
  verdict,
} from "./plan_words";

const GIB = 1 << 30;

function tried(changes: string[], needed: number): PlanTry {
  return {
    changes,
    targets: [],
    peak_allocated: needed,
    peak_reserved: needed,
    needed,
    fits: true,
    slows: false,
    numerics: "same",
    compute: null,
    slow_down: null,
    step_time: null,
    limited_by: null,
    host_bytes: null,
    gpus: 1,
    is_best: true,
    is_on_curve: false,
    frees_cached_blocks: false,
    steps: 3,
    ended: "steps",
    step_peaks: "equal",
    from_earlier_run: null,
  };
}

function planOf(plan: PlanTry | null, more: Partial<Plan> = {}): Plan {
  return {
    floodmark: "",
    format: 1,
    gpu: "RTX 4090",
    capacity: 24 * GIB,
    unchanged: tried([], 30 * GIB),
    causes: [],
    plan,
    is_proven: true,
    changes: [],
    patch: "",
    command: "",
    floor: 26 * GIB,
    floor_try: null,
    floor_causes: [],
    tries: [],
    left_out: [],
    not_tried: [],
    next_steps: [],
    runs: [],
    tries_note: null,
    ...more,
  };
}

describe("the verdict", () => {
  it.each([
    [
      planOf(tried(["fused", "checkpoint=12"], 20 * GIB)),
      "Fits with fused + checkpoint=12: RTX 4090, 4.000 GiB of 24.00 GiB are left",
    ],
    [planOf(tried([], 20 * GIB)), "Fits as it is: RTX 4090, 4.000 GiB of 24.00 GiB are left"],
    [
      planOf(tried(["fused"], 25 * GIB)),
      "Fits with fused: RTX 4090, 24.00 GiB are enough because torch frees cached blocks",
    ],
    [
      planOf(null),
      "Nothing that was tried fits: RTX 4090 has 24.00 GiB, and the program needs at least 26.00 GiB",
    ],
    [planOf(null, { not_tried: ["fused"] }), "No plan was found in time: RTX 4090 has 24.00 GiB"],
  ])("says it as the terminal does", (plan, sentence) => {
    expect(verdict(plan)).toBe(sentence);
  });
});

it("says what the unchanged program needs, in torch and outside of it", () => {
  const unchanged = { ...tried([], 4 * GIB), peak_reserved: 3 * GIB, peak_allocated: 2 * GIB };
  expect(unchangedSentence(unchanged)).toBe(
    "Without changes it needs 4.000 GiB: 3.000 GiB reserved (2.000 GiB allocated) and 1.000 GiB outside torch, with the CUDA context.",
  );
});

it("has no check mark beside a bar that is over the limit", () => {
  const words = (needed: number, fits: boolean) =>
    fitWords({ ...tried(["fused"], needed), fits }, 24 * GIB).text;
  expect([words(24 * GIB, true), words(25 * GIB, false)]).toEqual(["✓ yes", "✗ no"]);
  expect(words(25 * GIB, true)).toBe("if freed");
});

describe("what it costs", () => {
  it("has the time where that is known", () => {
    expect(costSentence({ slow_down: 1.154, slows: true, numerics: "rounding" })).toBe(
      "steps take ~1.2 × as long; results differ by rounding alone",
    );
    expect(costSentence({ slow_down: null, slows: true, numerics: "same" })).toBe(
      "steps take longer; results stay the same",
    );
    expect(costSentence({ slow_down: null, slows: true, numerics: "same", gpus: 4 })).toBe(
      "4 GPUs, each with the batch of the program; steps take longer; results stay the same",
    );
    expect([null, 1, 2.174].map(formatMultiple)).toEqual(["?", "1.00 ×", "2.17 ×"]);
  });

  it("names a try by its changes", () => {
    expect(tryName({ changes: [] })).toBe("unchanged");
    expect(tryName({ changes: ["a", "b"] })).toBe("a + b");
  });
});

describe("a next step", () => {
  const step: NextStep = {
    gpu: "L4",
    capacity: 24 * GIB,
    profile: "l4",
    gpus: 1,
    changes: ["fused"],
    needed: 20 * GIB,
  };

  it("names the GPU with its option, or how many of them", () => {
    expect(nextStepSentence(step)).toBe(
      "It fits on L4 (--gpu l4) with fused, as tried: 20.00 GiB of 24.00 GiB.",
    );
    expect(nextStepSentence({ ...step, gpus: 4, changes: [] })).toBe(
      "It fits on 4 × L4 (--shard-over 4) as it is, as tried: 20.00 GiB of 24.00 GiB.",
    );
  });
});
