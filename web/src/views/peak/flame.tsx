// The icicle: what called what, or which module lies in which, as wide as the bytes.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Icicle, IcicleNode } from "../../api/types.gen";
import { formatBytes, formatCount, formatShare } from "../../base/bytes";
import { channels, type Inks, readableOn } from "../../base/colours";
import { shortPath } from "../../base/paths";
import { field, go } from "../../model/address";
import { inks } from "../../model/theme";
import { fitted, type Pen } from "../../render/pen";
import { Picture, SaveMenu } from "../../render/picture";
import { hideTip, showTip, TipRows } from "../../render/tooltip";
import {
  deepest,
  foundIn,
  known,
  matchedBytes,
  nameOf,
  nodeAt,
  type Placed,
  placed,
  ROW_HEIGHT,
} from "./icicle";

/** The node that is enlarged, by the names on the way to it; `focus` in the address. */
const focusField = field("focus");

function setFocus(path: readonly string[]): void {
  go({ focus: path.length === 0 ? null : path.join("\n") });
}

export interface FlameProps {
  readonly icicle: Icicle;
  readonly by: string;
  readonly words: string;
}

export function Flame({ icicle, by, words }: FlameProps) {
  const focus = focusField.value === "" ? [] : focusField.value.split("\n");
  const [hovered, setHovered] = useState<string | null>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const last = useRef<readonly Placed[]>([]);
  const wanted = useMemo(() => words.toLowerCase().split(/\s+/).filter(Boolean), [words]);
  // What is found may lie elsewhere: the whole is shown again.
  const lastWords = useRef(words);
  useEffect(() => {
    if (lastWords.current !== words) setFocus([]);
    lastWords.current = words;
  }, [words]);
  const { path, nodes } = known(icicle.root, focus);
  const rows = useMemo(
    () => deepest(placed(icicle.root, path, 1000)) + 1,
    [icicle, path.join("\n")],
  );
  const draw = (pen: Pen, size: { width: number; height: number }, colours: Inks) => {
    const all = placed(icicle.root, path, size.width);
    last.current = all;
    const found = foundIn(all, wanted);
    for (const one of all) drawNode(pen, one, colours, { found, focusDepth: path.length, hovered });
  };
  const at = (event: MouseEvent) => nodeAt(last.current, event.offsetX, event.offsetY);
  const leave = () => {
    setHovered(null);
    hideTip();
  };
  return (
    <div class="flame">
      <Crumbs
        nodes={nodes}
        onGo={(depth) => setFocus(path.slice(0, depth))}
        found={matchedBytes(icicle.root, wanted)}
        total={icicle.total}
        isSearch={wanted.length > 0}
      />
      <SaveMenu
        drawing={() => ({
          name: `peak-by-${by}`,
          title: description(icicle, by),
          size: { width: canvas.current?.clientWidth ?? 800, height: rows * ROW_HEIGHT + 4 },
          inks: inks.peek(),
          draw,
        })}
      />
      <div class="flame-scroll">
        <div class="flame-room" style={{ height: `${rows * ROW_HEIGHT + 4}px` }}>
          <Picture
            name={`peak-by-${by}`}
            label={description(icicle, by)}
            draw={draw}
            canvasRef={canvas}
            hasNoMenu
            on={{
              onClick: (event) => {
                const found = at(event);
                if (found) setFocus(found.path);
                leave();
              },
              onPointerMove: (event) => {
                const found = at(event);
                if (!found) return leave();
                setHovered(found.path.join("\n"));
                showTip(
                  event.clientX,
                  event.clientY,
                  <Tip node={found.node} total={icicle.total} />,
                );
              },
              onPointerLeave: leave,
            }}
          />
        </div>
      </div>
    </div>
  );
}

interface Shown {
  /** Those that are looked for; null when nothing is. */
  readonly found: ReadonlySet<Placed> | null;
  readonly focusDepth: number;
  readonly hovered: string | null;
}

function drawNode(pen: Pen, one: Placed, inks: Inks, shown: Shown): void {
  const { node } = one;
  const y = one.depth * ROW_HEIGHT;
  const isFaded = (shown.found !== null && !shown.found.has(one)) || one.depth < shown.focusDepth;
  const fill = nodeColour(node, one.depth, inks, isFaded);
  const gap = one.width > 3 ? 1 : 0;
  pen.rect(one.x, y, Math.max(0.5, one.width - gap), ROW_HEIGHT - 1, fill);
  if (shown.hovered === one.path.join("\n")) {
    pen.outline(one.x + 0.75, y + 0.75, Math.max(1, one.width - 2.5), ROW_HEIGHT - 2.5, {
      stroke: inks.ink,
      width: 1.5,
    });
  }
  if (one.width < 28) return;
  const text = fitted(pen, labelOf(node), one.width - 10, 11.5);
  if (text)
    pen.text(one.x + 5, y + ROW_HEIGHT / 2, text, {
      fill: readableOn(fill),
      baseline: "middle",
      size: 11.5,
    });
}

/** A colour for each file or module, quiet for what torch itself does and for what was not looked for. */
function nodeColour(node: IcicleNode, depth: number, inks: Inks, isFaded: boolean): string {
  if (isFaded) return inks.raised;
  if (depth === 0 || node.name === "smaller" || node.name === "(no module)") return inks.edge;
  if (node.name === "before recording") return inks.before;
  const key = node.file ?? node.name.replace(/\.?\d+.*$/, "");
  const colour = inks.groups[sum(key) % (inks.groups.length - 1)] ?? inks.rest;
  const isLibrary = node.file?.includes("/site-packages/") ?? false;
  return mixed(colour, inks.panel, isLibrary ? 0.68 : 0.25);
}

function sum(text: string): number {
  let value = 7;
  for (let at = 0; at < text.length; at += 1)
    value = (value * 31 + text.charCodeAt(at)) % 1_000_003;
  return value;
}

function mixed(one: string, other: string, share: number): string {
  const [a, b] = [channels(one), channels(other)];
  const part = (at: 0 | 1 | 2) => Math.round(a[at] * (1 - share) + b[at] * share);
  return `#${[part(0), part(1), part(2)].map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

function labelOf(node: IcicleNode): string {
  return node.line === null
    ? node.name
    : `${node.name}  ${shortPath(node.file ?? "")
        .split("/")
        .pop()}:${node.line}`;
}

function Tip({ node, total }: { node: IcicleNode; total: number }) {
  return (
    <>
      <p class="title">{node.name}</p>
      {node.file !== null && (
        <p class="mono quiet">
          {shortPath(node.file)}
          {node.line !== null && `:${node.line}`}
        </p>
      )}
      <TipRows
        rows={[
          ["bytes", `${formatBytes(node.bytes)}  ${formatShare(node.bytes, total)}`],
          ["its own", formatBytes(node.own)],
          ["allocations", formatCount(node.count)],
        ]}
      />
    </>
  );
}

interface CrumbsProps {
  readonly nodes: readonly IcicleNode[];
  readonly onGo: (depth: number) => void;
  readonly found: number;
  readonly total: number;
  readonly isSearch: boolean;
}

/** The way back from a node that was clicked. */
function Crumbs({ nodes, onGo, found, total, isSearch }: CrumbsProps) {
  const shown = nodes.length > 4 ? [nodes[0], null, ...nodes.slice(-2)] : nodes;
  return (
    <nav class="crumbs" aria-label="Where in the icicle">
      {shown.map((node, at) => {
        if (!node) return <span key="gap">…</span>;
        const depth = nodes.indexOf(node);
        const isLast = at === shown.length - 1;
        return (
          <button
            key={`${depth} ${nameOf(node)}`}
            type="button"
            class="plain"
            disabled={isLast}
            onClick={() => onGo(depth)}
          >
            {depth === 0 ? "All" : node.name}
          </button>
        );
      })}
      {isSearch && (
        <span class="quiet">
          found: {formatBytes(found)} ({formatShare(found, total)})
        </span>
      )}
    </nav>
  );
}

/** What is seen, in words: the widest way down. */
function description(icicle: Icicle, by: string): string {
  const way: string[] = [];
  let node = icicle.root;
  while (way.length < 12) {
    const widest = node.children.reduce<IcicleNode | null>(
      (best, child) => (!best || child.bytes > best.bytes ? child : best),
      null,
    );
    if (!widest) break;
    way.push(`${widest.name} ${formatBytes(widest.bytes)}`);
    node = widest;
  }
  return `${formatBytes(icicle.total)} by ${by}, outermost first. The largest: ${way.join(", then ")}.`;
}
