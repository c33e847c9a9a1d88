import { expect, it } from "vitest";
import type { Lifetimes } from "../../api/types.gen";
import { lifetimesSentence } from "./words";

const rows = [
  { module: "fc", tensors: [{ bytes: 4096 }, { bytes: 1024 }] },
  { module: "", tensors: [{ bytes: 512 }] },
] as unknown as Lifetimes["rows"];
const answer = { rows, left_out: { count: 2, bytes: 2048 } } as Lifetimes;

it("says how many tensors are shown, and what is not", () => {
  expect(lifetimesSentence(answer)).toBe(
    "The 3 largest tensors of 1 module live in this window; 2 smaller ones, 2.000 KiB added up, not shown",
  );
});

it("counts those of the window in a saved page, which has the largest of the recording", () => {
  expect(lifetimesSentence(answer, rows.slice(0, 1))).toBe(
    "2 tensors of 1 module live in this window, out of the 3 largest of the recording",
  );
});
