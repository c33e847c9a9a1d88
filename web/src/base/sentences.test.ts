import { expect, it } from "vitest";
import { capital, failureSentence, groupName, momentSentence, stepName } from "./sentences";

const moment = {
  device: "cuda:0",
  seconds: 1.2341,
  step: 3,
  phase: "backward",
  module: "mlp",
  allocated: 13.54 * 2 ** 30,
  reserved: 14.2 * 2 ** 30,
};

it("formats a chosen time like the terminal", () => {
  expect(momentSentence({ ...moment, what: "peak" })).toBe(
    "Peak of cuda:0: 13.54 GiB allocated, 14.20 GiB reserved, in step 3, backward of mlp, at 1.234 s",
  );
  expect(
    momentSentence({
      ...moment,
      what: "end",
      step: null,
      phase: "outside",
      module: null,
      reserved: null,
    }),
  ).toBe("End on cuda:0: 13.54 GiB allocated, outside forward/backward/optimizer, at 1.234 s");
  expect(
    momentSentence({
      ...moment,
      what: "oom",
      phase: null,
      module: null,
      request: { bytes: 2 ** 31, location: "train.py:3 (main)" },
    }),
  ).toBe(
    "Out of memory on cuda:0: 2.000 GiB requested at train.py:3 (main), with 13.54 GiB allocated, 14.20 GiB reserved, in step 3, at 1.234 s",
  );
});

it("a failed allocation is said with what was free and the limit, where they are known", () => {
  const request = { bytes: 2 ** 31, location: "train.py:3 (main)" };
  const free = 12 * 2 ** 20;
  expect(failureSentence({ ...moment, request, free, unreserved: 2 ** 30, limit: 2 ** 34 })).toBe(
    "Out of memory on cuda:0: 2.000 GiB requested at train.py:3 (main), 12.00 MiB free in torch's segments, 1.000 GiB not reserved, limit 16.00 GiB, in step 3, backward of mlp, at 1.234 s",
  );
  const cpu = { ...moment, device: "cpu", step: null, phase: null, module: null };
  expect(failureSentence({ ...cpu, request, free: null, unreserved: null, limit: null })).toBe(
    "Out of memory on cpu: 2.000 GiB requested at train.py:3 (main), at 1.234 s",
  );
});

it("only a phase outside the others has another name", () => {
  expect(groupName("phase", "outside")).toBe("outside forward/backward/optimizer");
  expect(groupName("phase", "forward")).toBe("forward");
  expect(groupName("module", "outside")).toBe("outside");
});

it("marks a step that did not finish", () => {
  expect(stepName({ number: 5, is_finished: true })).toBe("step 5");
  expect(stepName({ number: 5, is_finished: false })).toBe("step 5, not finished");
});

it("a sentence has a capital, a name keeps its letters", () => {
  expect(capital("too few steps to look for leaks")).toBe("Too few steps to look for leaks");
  expect(capital("category")).toBe("Category");
  expect(capital("train.py:3 (main) grows")).toBe("train.py:3 (main) grows");
  expect(capital("`x` is lost")).toBe("`x` is lost");
});
