import { expect, it } from "vitest";
import type { Pen } from "../../render/pen";
import { fittedModule, idleFrom, type Tensor } from "./draw";

/** A pen whose letters are a pixel wide. */
const pen = { measure: (text: string) => text.length } as Pen;

it("shows a module's name whole where there is room", () => {
  expect(fittedModule(pen, "blocks.0.attention.dropout", 40)).toBe("blocks.0.attention.dropout");
});

it("leaves out the middle first: the block and the last name distinguish modules", () => {
  expect(fittedModule(pen, "blocks.0.attention.dropout", 20)).toBe("blocks.0.…dropout");
});

it("then cuts the beginning of the last name", () => {
  expect(fittedModule(pen, "blocks.0.attention.query_key_value", 20)).toBe("blocks.0.…_key_value");
});

it("cuts the beginning of what has no middle", () => {
  expect(fittedModule(pen, "modeling_llama:400", 10)).toBe("…llama:400");
});

it("knows since when a tensor is idle, where its last use is known", () => {
  const idle = (last_use_seconds: number | null, freed_seconds: number | null) =>
    idleFrom({ last_use_seconds, freed_seconds } as Tensor);
  expect([idle(2, 5), idle(2, null), idle(5, 5), idle(null, 5)]).toEqual([2, 2, null, null]);
});
