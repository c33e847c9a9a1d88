// The lines of a file, and those with bytes among them.

import type { AnnotatedFile, AnnotatedLine } from "../../api/types.gen";

export interface SourceLine {
  readonly number: number;
  readonly text: string;
  readonly hot: AnnotatedLine | null;
}

/** All lines of the file; without its text, the lines with bytes, with their function as text. */
export function shownLines({ text, annotation }: AnnotatedFile): SourceLine[] {
  if (text === null)
    return annotation.lines.map((line) => ({
      number: line.line,
      text: `(${line.function})`,
      hot: line,
    }));
  const hot = new Map(annotation.lines.map((line) => [line.line, line]));
  const lines = text.replace(/\n$/, "").split(/\r?\n/);
  const last = Math.max(lines.length, ...hot.keys());
  return Array.from({ length: last }, (_, at) => ({
    number: at + 1,
    text: (lines[at] ?? "").replaceAll("\t", "    "),
    hot: hot.get(at + 1) ?? null,
  }));
}

export function heaviest(lines: readonly AnnotatedLine[]): AnnotatedLine | null {
  return lines.reduce<AnnotatedLine | null>(
    (best, line) => (!best || line.bytes > best.bytes ? line : best),
    null,
  );
}

/** The next or previous line with bytes. */
export function lineAfter(
  lines: readonly AnnotatedLine[],
  number: number,
  by: 1 | -1,
): AnnotatedLine | undefined {
  return by > 0
    ? lines.find((line) => line.line > number)
    : lines.findLast((line) => line.line < number);
}

/** The lines with bytes above row `first` and from row `end` on, which are not visible. */
export function unseenLines(
  lines: readonly SourceLine[],
  first: number,
  end: number,
): { above: AnnotatedLine[]; below: AnnotatedLine[] } {
  const hot = (some: readonly SourceLine[]) =>
    some.map((line) => line.hot).filter((line) => line !== null);
  return { above: hot(lines.slice(0, first)), below: hot(lines.slice(end)) };
}

/** The category with the most bytes. */
export function mainCategory(line: AnnotatedLine): string {
  const sorted = Object.entries(line.categories).sort(([, one], [, other]) => other - one);
  return sorted[0]?.[0] ?? "unknown";
}
