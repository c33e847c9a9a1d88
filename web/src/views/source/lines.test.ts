import { expect, it } from "vitest";
import type { AnnotatedFile, AnnotatedLine } from "../../api/types.gen";
import { heaviest, lineAfter, mainCategory, shownLines, unseenLines } from "./lines";

function hot(line: number, bytes: number): AnnotatedLine {
  const categories = { activation: bytes - 1, input: 1 };
  return { line, bytes, function: "f", function_line: 1, backward: 0, count: 1, categories };
}

const lines = [hot(2, 10), hot(5, 30)];
const file = (text: string | null) => ({ text, annotation: { lines } }) as unknown as AnnotatedFile;

it("has all lines of a file, also where the file became shorter", () => {
  const shown = shownLines(file("a\n\tb\nc\n"));
  expect(shown.map((line) => line.text)).toEqual(["a", "    b", "c", "", ""]);
  expect(shown.map((line) => line.hot?.bytes)).toEqual([undefined, 10, undefined, undefined, 30]);
});

it("has the lines with bytes where there is no text", () => {
  expect(shownLines(file(null)).map(({ number, text }) => [number, text])).toEqual([
    [2, "(f)"],
    [5, "(f)"],
  ]);
});

it("moves from line to line with bytes", () => {
  expect(heaviest(lines)?.line).toBe(5);
  expect(lineAfter(lines, 2, 1)?.line).toBe(5);
  expect(lineAfter(lines, 5, -1)?.line).toBe(2);
  expect(lineAfter(lines, 5, 1)).toBeUndefined();
  expect(mainCategory(hot(1, 9))).toBe("activation");
});

it("counts the lines with bytes that are out of sight", () => {
  const shown = shownLines(file("a\nb\nc\nd\ne\n"));
  const numbers = ({ above, below }: ReturnType<typeof unseenLines>) => [
    above.map((one) => one.line),
    below.map((one) => one.line),
  ];
  expect(numbers(unseenLines(shown, 2, 4))).toEqual([[2], [5]]);
  expect(numbers(unseenLines(shown, 0, 5))).toEqual([[], []]);
});
