// The lines of a file, with bytes in the gutter. Only visible lines are in the DOM.

import { useEffect, useRef, useState } from "preact/hooks";
import type { AnnotatedFile, AnnotatedLine } from "../../api/types.gen";
import { counted, formatBytes } from "../../base/bytes";
import { categoryColour } from "../../base/colours";
import { go, numberField } from "../../model/address";
import { inks } from "../../model/theme";
import { useSize } from "../../render/picture";
import { useKeys } from "../../render/use_keys";
import { heaviest, lineAfter, mainCategory, shownLines, unseenLines } from "./lines";

const ROW_HEIGHT = 20;
/** Extra lines above and below the visible ones. */
const BESIDE = 12;

/** The requested line. */
const lineField = numberField("line");

export function Code({ found }: { found: AnnotatedFile }) {
  const box = useRef<HTMLElement>(null);
  const { height } = useSize(box);
  const [top, setTop] = useState(0);
  const hot = found.annotation.lines;
  const lines = shownLines(found);
  const wanted = lineField.value;
  const first = wanted ?? heaviest(hot)?.line ?? 1;
  const at = lines.findIndex((line) => line.number >= first);
  const { file } = found.annotation;
  useEffect(() => {
    const element = box.current;
    if (!element || height === 0) return;
    element.scrollTop = Math.max(0, at * ROW_HEIGHT - height / 3);
    setTop(element.scrollTop);
  }, [file, first, height > 0]);
  const move = (by: 1 | -1) => {
    const next = lineAfter(hot, wanted ?? (by > 0 ? 0 : Number.POSITIVE_INFINITY), by);
    if (next) go({ line: next.line }, { replaces: true });
  };
  useKeys("Source", [
    { keys: ["n"], hint: "Next line with bytes", run: () => move(1) },
    { keys: ["p"], hint: "Previous line with bytes", run: () => move(-1) },
  ]);
  const unseen = unseenLines(
    lines,
    Math.ceil(top / ROW_HEIGHT),
    Math.floor((top + height) / ROW_HEIGHT),
  );
  const begin = Math.max(0, Math.floor(top / ROW_HEIGHT) - BESIDE);
  const end = Math.ceil((top + height) / ROW_HEIGHT) + BESIDE;
  const most = Math.max(1, ...hot.map((line) => line.bytes));
  return (
    <div class="source-scroll">
      {height > 0 && <More lines={unseen.above} mark="▲" where="above" />}
      <section
        class="source-code"
        ref={box}
        tabIndex={0}
        aria-label={`Source of ${file}`}
        onScroll={(event) => setTop(event.currentTarget.scrollTop)}
      >
        <ol style={{ height: `${lines.length * ROW_HEIGHT}px` }}>
          {lines.slice(begin, end).map(({ number, text, hot }, index) => (
            <li
              key={number}
              class={number === wanted ? "wanted" : ""}
              style={{ top: `${(begin + index) * ROW_HEIGHT}px` }}
            >
              <Gutter line={hot} most={most} />
              <span class="number">{number}</span>
              <code>{text}</code>
            </li>
          ))}
        </ol>
      </section>
      {height > 0 && <More lines={unseen.below} mark="▼" where="below" />}
    </div>
  );
}

/** The number of lines with bytes outside the visible part, as a button to the nearest one. */
function More({
  lines,
  mark,
  where,
}: {
  lines: readonly AnnotatedLine[];
  mark: string;
  where: "above" | "below";
}) {
  const nearest = where === "above" ? lines.at(-1) : lines[0];
  if (!nearest) return null;
  const bytes = lines.reduce((sum, line) => sum + line.bytes, 0);
  return (
    <button
      type="button"
      class={`source-more ${where}`}
      onClick={() => go({ line: nearest.line }, { replaces: true })}
    >
      {mark} {counted(lines.length, "line")} with {formatBytes(bytes)} {where}
    </button>
  );
}

function Gutter({ line, most }: { line: AnnotatedLine | null; most: number }) {
  if (!line) return <span class="gutter" />;
  const category = mainCategory(line);
  return (
    <span class="gutter" title={hint(line)}>
      <i
        style={{
          width: `${(100 * line.bytes) / most}%`,
          background: categoryColour(inks.value, category),
        }}
      />
      <b>{formatBytes(line.bytes)}</b>
    </span>
  );
}

function hint(line: AnnotatedLine): string {
  const categories = Object.entries(line.categories)
    .sort(([, one], [, other]) => other - one)
    .map(([name, bytes]) => `${name} ${formatBytes(bytes)}`);
  const backward = line.backward > 0 ? `, ${formatBytes(line.backward)} by the backward pass` : "";
  return `${counted(line.count, "allocation")} in ${line.function}: ${categories.join(", ")}${backward}`;
}
