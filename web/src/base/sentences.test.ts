import { expect, it } from "vitest";
import { momentSentence } from "./sentences";

const moment = {
  device: "cuda:0",
  seconds: 1.2341,
  step: 3,
  phase: "backward",
  module: "mlp",
  allocated: 13.54 * 2 ** 30,
  reserved: 14.2 * 2 ** 30,
};

it("a moment is said as the terminal says it", () => {
  expect(momentSentence({ ...moment, what: "peak" })).toBe(
    "Peak of cuda:0: 13.54 GiB allocated, 14.20 GiB reserved, at 1.234 s in step 3, backward of mlp",
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
  ).toBe("End on cuda:0: 13.54 GiB allocated, at 1.234 s, outside the model");
  expect(
    momentSentence({
      ...moment,
      what: "oom",
      phase: null,
      module: null,
      request: { bytes: 2 ** 31, location: "train.py:3 (main)" },
    }),
  ).toBe(
    "Out of memory on cuda:0: 2.000 GiB requested at train.py:3 (main), with 13.54 GiB allocated, 14.20 GiB reserved, at 1.234 s in step 3",
  );
});
