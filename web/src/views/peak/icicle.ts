// Where the nodes of an icicle lie: a row for each depth, as wide as their bytes.

import type { IcicleNode } from "../../api/types.gen";

export const ROW_HEIGHT = 21;

export interface Placed {
  readonly node: IcicleNode;
  /** Names from the root to this node, the root's left out. */
  readonly path: readonly string[];
  readonly depth: number;
  readonly x: number;
  readonly width: number;
}

/** The nodes that are at least a pixel wide, those that the focus lies in first, over the whole width. */
export function placed(
  root: IcicleNode,
  focus: readonly string[],
  width: number,
  least = 0.7,
): Placed[] {
  const found: Placed[] = [];
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

function place(
  found: Placed[],
  node: IcicleNode,
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

/** What tells a node from its siblings. */
export function nameOf(node: IcicleNode): string {
  return node.line === null ? node.name : `${node.name}:${node.file ?? ""}:${node.line}`;
}

/** The focus as far as this icicle has it. */
export function known(
  root: IcicleNode,
  focus: readonly string[],
): { path: string[]; nodes: IcicleNode[] } {
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

/** Whether a node has all the words, in its name or its place. */
export function matches(node: IcicleNode, words: readonly string[]): boolean {
  const text = `${node.name} ${node.file ?? ""}:${node.line ?? ""}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

/** The nodes that match, with all below them; null when nothing is looked for. Parents come before their children. */
export function foundIn(
  all: readonly Placed[],
  words: readonly string[],
): ReadonlySet<Placed> | null {
  if (words.length === 0) return null;
  const found = new Set<Placed>();
  const paths = new Set<string>();
  for (const one of all) {
    const above = one.depth > 0 && paths.has(one.path.slice(0, -1).join("\n"));
    if (!above && !matches(one.node, words)) continue;
    found.add(one);
    paths.add(one.path.join("\n"));
  }
  return found;
}

/** The bytes below nodes that match, each counted once. */
export function matchedBytes(node: IcicleNode, words: readonly string[]): number {
  if (words.length === 0) return 0;
  if (matches(node, words)) return node.bytes;
  return node.children.reduce((sum, child) => sum + matchedBytes(child, words), 0);
}

/** The node at a point. */
export function nodeAt(all: readonly Placed[], x: number, y: number): Placed | null {
  const depth = Math.floor(y / ROW_HEIGHT);
  return all.find((one) => one.depth === depth && x >= one.x && x < one.x + one.width) ?? null;
}

export function deepest(all: readonly Placed[]): number {
  return all.reduce((most, one) => Math.max(most, one.depth), 0);
}
