import { expect, it } from "vitest";
import { arranged, nextOrder } from "./rows";
import { csvOf } from "./save";

const rows = [
  { name: "layers.10", bytes: 3 },
  { name: "layers.9", bytes: 7 },
  { name: "Head", bytes: null },
];
const columns = [
  { name: "name", value: (row: (typeof rows)[number]) => row.name },
  { name: "bytes", value: (row: (typeof rows)[number]) => row.bytes },
];
const names = (words: string, order: { name: string; isDescending: boolean } | null) =>
  arranged(rows, columns, words, order).map((row) => row.name);

it("rows are sorted by number and by text, with what is not known at the end", () => {
  expect(names("", { name: "bytes", isDescending: true })).toEqual([
    "layers.9",
    "layers.10",
    "Head",
  ]);
  expect(names("", { name: "name", isDescending: false })).toEqual([
    "Head",
    "layers.9",
    "layers.10",
  ]);
  expect(names("", null)).toEqual(["layers.10", "layers.9", "Head"]);
});

it("a filter wants every word, in any column", () => {
  expect(names("LAYERS 7", null)).toEqual(["layers.9"]);
  expect(names("nothing", null)).toEqual([]);
});

it("a second press turns the order round", () => {
  const first = nextOrder(null, "bytes", true);
  expect([
    first.isDescending,
    nextOrder(first, "bytes", true).isDescending,
    nextOrder(first, "name", false).isDescending,
  ]).toEqual([true, false, false]);
});

it("CSV quotes what needs it, and runs nothing in a spreadsheet", () => {
  expect(csvOf([["a,b", 'say "hi"', "=1+1", -3]])).toBe(`"a,b","say ""hi""",'=1+1,-3\r\n`);
});
