// The layout of an icicle: a row for each depth, nodes as wide as their bytes.

export const ROW_HEIGHT = 21;

/** A node of an icicle. */
export interface TreeNode<N> {
  readonly name: string;
  readonly file: string | null;
  readonly line: number | null;
  /** Determines the width. */
  readonly bytes: number;
  readonly children: readonly N[];
}

export interface Placed<N> {
  readonly node: N;
  /** Names from the root to this node, without the root's. */
  readonly path: readonly string[];
  readonly depth: number;
  readonly x: number;
  readonly width: number;
}

/** The nodes that are at least a pixel wide; the focus and its ancestors have the whole width. */
export function placed<N extends TreeNode<N>>(
  root: N,
  focus: readonly string[],
  width: number,
  least = 0.7,
): Placed<N>[] {
  const found: Placed<N>[] = [];
  let node = root;
  const path: string[] = [];
  for (const name of focus) {
    const next = node.children.find((child) => nameOf(child) === name);
    if (!next) break;
    found.push({ node, path: [...path], depth: path.length, x: 0, width });
    path.push(name);
    node = next;
  }
  place(found, node, path, 0, width, least);
  return found;
}

function place<N extends TreeNode<N>>(
  found: Placed<N>[],
  node: N,
  path: readonly string[],
  x: number,
  width: number,
  least: number,
): void {
  found.push({ node, path, depth: path.length, x, width });
  let left = x;
  for (const child of node.children) {
    const wide = node.bytes > 0 ? (child.bytes / node.bytes) * width : 0;
    if (wide >= least) place(found, child, [...path, nameOf(child)], left, wide, least);
    left += wide;
  }
}

/** A key that is unique among siblings. */
export function nameOf<N>(node: TreeNode<N>): string {
  return node.line === null ? node.name : `${node.name}:${node.file ?? ""}:${node.line}`;
}

/** The part of the focus path that exists in this icicle. */
export function known<N extends TreeNode<N>>(
  root: N,
  focus: readonly string[],
): { path: string[]; nodes: N[] } {
  const path: string[] = [];
  const nodes = [root];
  let node = root;
  for (const name of focus) {
    const next = node.children.find((child) => nameOf(child) === name);
    if (!next) break;
    path.push(name);
    nodes.push(next);
    node = next;
  }
  return { path, nodes };
}

/** Whether a node's name and location contain all the words. */
export function matches<N>(node: TreeNode<N>, words: readonly string[]): boolean {
  const text = `${node.name} ${node.file ?? ""}:${node.line ?? ""}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

/**
 * The matching nodes with their descendants; null without a search. Parents come before their
 * children.
 */
export function foundIn<N extends TreeNode<N>>(
  all: readonly Placed<N>[],
  words: readonly string[],
): ReadonlySet<Placed<N>> | null {
  if (words.length === 0) return null;
  const found = new Set<Placed<N>>();
  const paths = new Set<string>();
  for (const one of all) {
    const above = one.depth > 0 && paths.has(one.path.slice(0, -1).join("\n"));
    if (!above && !matches(one.node, words)) continue;
    found.add(one);
    paths.add(one.path.join("\n"));
  }
  return found;
}

/** The bytes of matching nodes, each byte counted once. */
export function matchedBytes<N extends TreeNode<N>>(node: N, words: readonly string[]): number {
  if (words.length === 0) return 0;
  if (matches(node, words)) return node.bytes;
  return node.children.reduce((sum, child) => sum + matchedBytes(child, words), 0);
}

/** The node at a point. */
export function nodeAt<N>(all: readonly Placed<N>[], x: number, y: number): Placed<N> | null {
  const depth = Math.floor(y / ROW_HEIGHT);
  return all.find((one) => one.depth === depth && x >= one.x && x < one.x + one.width) ?? null;
}

export function deepest<N>(all: readonly Placed<N>[]): number {
  return all.reduce((most, one) => Math.max(most, one.depth), 0);
}

/** The node in the direction of an arrow key: child, parent or sibling; null if there is none. */
export function neighbour<N>(
  all: readonly Placed<N>[],
  from: readonly string[],
  key: string,
): Placed<N> | null {
  const at = all.findIndex((one) => isSame(one.path, from));
  const here = all[at];
  if (!here) return all[0] ?? null;
  if (key === "ArrowUp") return all.find((one) => isSame(one.path, from.slice(0, -1))) ?? null;
  if (key === "ArrowDown") {
    const child = all[at + 1];
    return child && child.depth === here.depth + 1 ? child : null;
  }
  const row = all.filter((one) => one.depth === here.depth);
  const beside = row.indexOf(here) + (key === "ArrowRight" ? 1 : -1);
  return row[beside] ?? null;
}

function isSame(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((name, at) => name === other[at]);
}
