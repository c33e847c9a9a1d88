import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { nameTail, pathTail, shortener, shorterForms, shortPath, splitLocation } from "./paths";

it("locations have the forms that the terminal gives them", () => {
  const table = readFileSync("../fixtures/locations.json", "utf8");
  const rows = JSON.parse(table) as { text: string; forms: string[] }[];
  for (const { text, forms } of rows) expect(shorterForms(text)).toEqual(forms);
});

it("a path keeps its last parts", () => {
  expect(pathTail("/home/ada/run/train.py:3 (main)")).toBe("…/run/train.py:3 (main)");
  expect(pathTail("/home/ada/run/model/train.py", 3)).toBe("…/run/model/train.py");
  expect(pathTail("train.py", 3)).toBe("train.py");
});

it("a path is shown from its package", () => {
  expect(shortPath("/usr/lib/python3/dist-packages/x/y.py:3 (f)")).toBe("x/y.py:3 (f)");
  expect(shortPath("before recording")).toBe("before recording");
  expect(shortPath("a/site-packages/x.py")).toBe("a/site-packages/x.py");
});

it("locations of one program lose the folder that they share", () => {
  const short = shortener([
    "/home/ada/run/train.py:3 (main)",
    "/home/ada/run/model/mlp.py:9 (forward)",
    "/home/ada/lib/site-packages/torch/x.py:1 (f)",
    "before recording",
  ]);
  expect(short("/home/ada/run/train.py:3 (main)")).toBe("train.py:3 (main)");
  expect(short("/home/ada/run/model/mlp.py:9 (forward)")).toBe("model/mlp.py:9 (forward)");
  expect(short("/home/ada/lib/site-packages/torch/x.py:1 (f)")).toBe("torch/x.py:1 (f)");
  expect(short("before recording")).toBe("before recording");
});

it("nothing in common is nothing to lose", () => {
  const short = shortener(["/a/x.py:1", "/b/y.py:2"]);
  expect([short("/a/x.py:1"), short("/b/y.py:2")]).toEqual(["a/x.py:1", "b/y.py:2"]);
});

it("a long name keeps its end", () => {
  expect(nameTail("transformer.h.11.mlp.c_proj", 14)).toBe("….mlp.c_proj");
  expect(nameTail("transformers/models/gpt2/modeling_gpt2.py:224 (forward)", 32)).toBe(
    "…/modeling_gpt2.py:224 (forward)",
  );
  expect(nameTail("short", 12)).toBe("short");
  expect(nameTail("train.py:118 (Net.forward_of_everything)", 38)).toBe(
    "train.py:118 (forward_of_everything)",
  );
  expect(nameTail("train.py:118 (forward_of_everything)", 20)).toBe("train.py:118");
});

it("a location is its file and function first, and its folders after them", () => {
  expect(splitLocation("torchvision/models/resnet.py:92 (forward) (backward)")).toEqual({
    name: "resnet.py:92 (forward) (backward)",
    folder: "torchvision/models",
  });
  expect(splitLocation("/x.py:1")).toEqual({ name: "x.py:1", folder: "/" });
  expect(splitLocation("a/b/train.py")).toEqual({ name: "train.py", folder: "a/b" });
  for (const whole of ["train.py:3 (main)", "no Python frame: thread 0", "layers.0.mlp", "a/b c"])
    expect(splitLocation(whole)).toEqual({ name: whole, folder: "" });
});
