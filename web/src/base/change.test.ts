import { expect, it } from "vitest";
import { changePieces, settingsCommand } from "./change";

it("takes a line for the environment as a whole", () => {
  const line = "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
  expect(changePieces(line)).toEqual([{ text: line, isCode: true }]);
  expect(changePieces("unset PYTORCH_CUDA_ALLOC_CONF")[0]?.isCode).toBe(true);
});

it("finds code in backticks", () => {
  expect(changePieces("use `fused=True` (no temporaries) or `foreach=False`")).toEqual([
    { text: "use ", isCode: false },
    { text: "fused=True", isCode: true },
    { text: " (no temporaries) or ", isCode: false },
    { text: "foreach=False", isCode: true },
  ]);
});

it("finds no code in plain words", () => {
  expect(changePieces("free it before the peak")).toEqual([
    { text: "free it before the peak", isCode: false },
  ]);
});

it("types what sets the settings, and what takes them away", () => {
  expect(settingsCommand("max_split_size_mb:128")).toBe(
    "export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128",
  );
  expect(settingsCommand("")).toBe("unset PYTORCH_CUDA_ALLOC_CONF");
});
