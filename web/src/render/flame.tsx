// The icicle: calls or modules as nested rows, as wide as their bytes. The pointer or the arrows
// choose a node; a click or Enter enlarges it to the whole width.

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { formatBytes, formatShare } from "../base/bytes";
import { channels, type Inks, readableOn } from "../base/colours";
import type { Location } from "../base/location";
import { shortPath } from "../base/paths";
import { field, go } from "../model/address";
import { inks } from "../model/theme";
import "./flame.css";
import {
  deepest,
  foundIn,
  known,
  matchedBytes,
  nameOf,
  neighbour,
  nodeAt,
  type Placed,
  placed,
  ROW_HEIGHT,
  type TreeNode,
} from "./icicle";
import { Link } from "./link";
import { fitted, type Pen } from "./pen";
import { Picture, SaveMenu } from "./picture";
import { sourceOf } from "./source_link";
import { hideTip, showTip } from "./tooltip";

export interface FlameProps<N> {
  readonly root: N;
  /** The name of a saved file. */
  readonly name: string;
  /** A description for screen readers. */
  readonly label: string;
  /** The name of the root in the crumbs; `All` by default. */
  readonly rootName?: string;
  /** The search text. */
  readonly words: string;
  /** The field of the address with the enlarged node, as the names from the root. */
  readonly focus?: string;
  /** Whether the root is at the bottom. */
  readonly isFlipped?: boolean;
  readonly colour: (node: N, depth: number, inks: Inks) => string;
  readonly tip: (node: N) => ComponentChildren;
  /** A prefix for the name of a node. */
  readonly text?: (node: N) => string;
  /** The description of a node for screen readers. */
  readonly hint: (node: N) => string;
  /** Content beside the crumbs. */
  readonly children?: ComponentChildren;
}

export function Flame<N extends TreeNode<N>>(props: FlameProps<N>) {
  const { root, words, focus: fieldName = "focus", isFlipped = false } = props;
  const focusField = useMemo(() => field(fieldName), [fieldName]);
  const focus = focusField.value === "" ? [] : focusField.value.split("\n");
  const setFocus = (next: readonly string[]) =>
    go({ [fieldName]: next.length === 0 ? null : next.join("\n") });
  const [pointed, setPointed] = useState<Placed<N> | null>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const last = useRef<readonly Placed<N>[]>([]);
  const lastHeight = useRef(0);
  const wanted = useMemo(() => words.toLowerCase().split(/\s+/).filter(Boolean), [words]);
  // Matches may be outside the enlarged node: show the whole again.
  const lastWords = useRef(words);
  useEffect(() => {
    if (lastWords.current !== words) setFocus([]);
    lastWords.current = words;
  }, [words]);
  const { path, nodes } = known(root, focus);
  const hasLocations = useMemo(() => isLocated(root), [root]);
  const rows = useMemo(() => deepest(placed(root, path, 1000)) + 1, [root, path.join("\n")]);
  const draw = (pen: Pen, size: { width: number; height: number }, colours: Inks) => {
    const all = placed(root, path, size.width);
    last.current = all;
    const found = foundIn(all, wanted);
    const hovered = pointed?.path.join("\n") ?? null;
    lastHeight.current = size.height;
    for (const one of all) {
      const isFaded = (found !== null && !found.has(one)) || one.depth < path.length;
      const fill = isFaded ? colours.raised : props.colour(one.node, one.depth, colours);
      drawNode(pen, one, fill, colours, {
        text: [props.text?.(one.node), labelOf(one.node)].filter(Boolean).join("  "),
        isPointed: hovered === one.path.join("\n"),
        y: isFlipped ? size.height - (one.depth + 1) * ROW_HEIGHT : one.depth * ROW_HEIGHT,
      });
    }
  };
  const at = (event: MouseEvent) => {
    const y = isFlipped ? lastHeight.current - event.offsetY : event.offsetY;
    return nodeAt(last.current, event.offsetX, y);
  };
  const leave = () => {
    setPointed(null);
    hideTip();
  };
  const walk = (event: KeyboardEvent) => {
    const location = pointed && locationOf(pointed.node);
    if (event.key === "Enter" && pointed) setFocus(pointed.path);
    else if (event.key === "s" && location) go(sourceOf(location));
    else if (event.key === "Backspace") setFocus(path.slice(0, -1));
    else if (event.key.startsWith("Arrow")) {
      const key = isFlipped ? (FLIPPED[event.key] ?? event.key) : event.key;
      const next = neighbour(last.current, pointed?.path ?? ["", ""], key);
      if (next) setPointed(next);
    } else return;
    event.preventDefault();
  };
  return (
    <div class="flame">
      <Crumbs
        nodes={nodes}
        rootName={props.rootName ?? "All"}
        onGo={(depth) => setFocus(path.slice(0, depth))}
        found={matchedBytes(root, wanted)}
        total={root.bytes}
        isSearch={wanted.length > 0}
      >
        {props.children}
      </Crumbs>
      <SaveMenu
        drawing={() => ({
          name: props.name,
          title: props.label,
          size: { width: canvas.current?.clientWidth ?? 800, height: rows * ROW_HEIGHT + 4 },
          inks: inks.peek(),
          draw,
        })}
      />
      <div class="flame-scroll">
        <div class="flame-room" style={{ height: `${rows * ROW_HEIGHT + 4}px` }}>
          <Picture
            name={props.name}
            label={`${props.label} Arrows move, Enter enlarges, Backspace goes back${hasLocations ? ", s shows the source" : ""}.`}
            draw={draw}
            canvasRef={canvas}
            hasNoMenu
            on={{
              onKeyDown: walk,
              onBlur: leave,
              onClick: (event) => {
                const found = at(event);
                if (found) setFocus(found.path);
                leave();
              },
              onPointerMove: (event) => {
                const found = at(event);
                if (!found) return leave();
                setPointed(found);
                showTip(
                  event.clientX,
                  event.clientY,
                  <>
                    {props.tip(found.node)}
                    {locationOf(found.node) && (
                      <p class="quiet">A click enlarges it and offers its source</p>
                    )}
                  </>,
                );
              },
              onPointerLeave: leave,
            }}
          />
        </div>
      </div>
      <p class="unseen" aria-live="polite">
        {pointed && props.hint(pointed.node)}
      </p>
    </div>
  );
}

const FLIPPED: Readonly<Record<string, string>> = { ArrowUp: "ArrowDown", ArrowDown: "ArrowUp" };

function drawNode<N extends TreeNode<N>>(
  pen: Pen,
  one: Placed<N>,
  fill: string,
  inks: Inks,
  {
    text: whole,
    isPointed,
    y,
  }: { readonly text: string; readonly isPointed: boolean; readonly y: number },
): void {
  const gap = one.width > 3 ? 1 : 0;
  pen.rect(one.x, y, Math.max(0.5, one.width - gap), ROW_HEIGHT - 1, fill);
  if (isPointed) {
    pen.outline(one.x + 0.75, y + 0.75, Math.max(1, one.width - 2.5), ROW_HEIGHT - 2.5, {
      stroke: inks.ink,
      width: 1.5,
    });
  }
  if (one.width < 28) return;
  const text = fitted(pen, whole, one.width - 10, 11.5);
  if (text)
    pen.text(one.x + 5, y + ROW_HEIGHT / 2, text, {
      fill: readableOn(fill),
      baseline: "middle",
      size: 11.5,
    });
}

export function mixed(one: string, other: string, share: number): string {
  const [a, b] = [channels(one), channels(other)];
  const part = (at: 0 | 1 | 2) => Math.round(a[at] * (1 - share) + b[at] * share);
  return `#${[part(0), part(1), part(2)].map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

function labelOf<N>(node: TreeNode<N>): string {
  return node.line === null
    ? node.name
    : `${node.name}  ${shortPath(node.file ?? "")
        .split("/")
        .pop()}:${node.line}`;
}

/** The location of a node's frame, if it is known. */
function locationOf<N>({ file, line }: TreeNode<N>): Location | null {
  return file !== null && line !== null ? { file, line } : null;
}

/** Whether any node has a location: modules have none. */
function isLocated<N extends TreeNode<N>>(node: N): boolean {
  return locationOf(node) !== null || node.children.some(isLocated);
}

/** The name and the location of a node: the title of its tip. */
export function TipTitle<N>({ node }: { node: TreeNode<N> }) {
  return (
    <>
      <p class="title">{node.name}</p>
      {node.file !== null && (
        <p class="mono quiet">
          {shortPath(node.file)}
          {node.line !== null && `:${node.line}`}
        </p>
      )}
    </>
  );
}

interface CrumbsProps<N> {
  readonly nodes: readonly TreeNode<N>[];
  readonly rootName: string;
  readonly onGo: (depth: number) => void;
  readonly found: number;
  readonly total: number;
  readonly isSearch: boolean;
  readonly children?: ComponentChildren;
}

/** Crumbs: the path from the root to the enlarged node. */
function Crumbs<N>({ nodes, rootName, onGo, found, total, isSearch, children }: CrumbsProps<N>) {
  const last = nodes.at(-1);
  const location = last ? locationOf(last) : null;
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
            {depth === 0 ? rootName : node.name}
          </button>
        );
      })}
      {last && location && (
        <Link
          to={sourceOf(location)}
          hint={`Source of ${last.name}, ${location.file}:${location.line}`}
        >
          source ↗
        </Link>
      )}
      <span class="crumbs-end">
        {children}
        {isSearch && (
          <span class="quiet">
            found: {formatBytes(found)} ({formatShare(found, total)})
          </span>
        )}
      </span>
    </nav>
  );
}

/** The widest path from the root, as text. */
export function widestWay<N extends TreeNode<N>>(root: N): string {
  const way: string[] = [];
  let node = root;
  while (way.length < 12) {
    const widest = node.children.reduce<N | null>(
      (best, child) => (!best || child.bytes > best.bytes ? child : best),
      null,
    );
    if (!widest) break;
    way.push(`${widest.name} ${formatBytes(widest.bytes)}`);
    node = widest;
  }
  return way.join(", then ");
}
