import { expect, it } from "vitest";
import { formatHash, parseHash } from "./hash";

it("what is written is read again", () => {
  const fields = { view: "timeline", device: "cuda:0", off: "a & b\n=c", file: "x/y.py" };
  expect({ ...parseHash(formatHash(fields)) }).toEqual(fields);
});

it("is easy to read", () => {
  expect(formatHash({ view: "peak", device: "cuda:0", by: "", at: undefined })).toBe(
    "#view=peak&device=cuda:0",
  );
});

it("has no way to a prototype", () => {
  const fields = parseHash("#__proto__=x&toString=y");
  expect(Object.keys(fields)).toEqual(["__proto__", "toString"]);
  expect(({} as Record<string, unknown>).x).toBeUndefined();
});
