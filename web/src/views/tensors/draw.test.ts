import { expect, it } from "vitest";
import type { Pen } from "../../render/pen";
import { fittedModule } from "./draw";

/** A pen whose letters are a pixel wide. */
const pen = { measure: (text: string) => text.length } as Pen;

it("shows a module's name whole where there is room", () => {
  expect(fittedModule(pen, "blocks.0.attention.dropout", 40)).toBe("blocks.0.attention.dropout");
});

it("leaves out the middle first: the block and the last name tell modules apart", () => {
  expect(fittedModule(pen, "blocks.0.attention.dropout", 20)).toBe("blocks.0.…dropout");
});

it("then cuts the beginning of the last name", () => {
  expect(fittedModule(pen, "blocks.0.attention.query_key_value", 20)).toBe("blocks.0.…_key_value");
});

it("cuts the beginning of what has no middle", () => {
  expect(fittedModule(pen, "modeling_llama:400", 10)).toBe("…llama:400");
});
