import { expect, it } from "vitest";
import type { IcicleNode } from "../api/types.gen";
import { foundIn, known, matchedBytes, neighbour, nodeAt, placed, ROW_HEIGHT } from "./icicle";

function node(name: string, bytes: number, children: IcicleNode[] = []): IcicleNode {
  const below = children.reduce((sum, child) => sum + child.bytes, 0);
  const place = {
    file: null,
    line: null,
    framework: false,
    category: "unknown",
    first_allocation: null,
  } as const;
  return { name, ...place, bytes, own: bytes - below, count: 1, children };
}

const root = node("all", 100, [
  node("main", 60, [node("forward", 45), node("loss", 15)]),
  node("loss", 40),
]);

it("a node is as wide as its bytes, below the one that it belongs to", () => {
  const shown = placed(root, [], 200).map(
    (one) => `${one.node.name} ${one.depth} ${one.x} ${one.width}`,
  );
  expect(shown).toEqual([
    "all 0 0 200",
    "main 1 0 120",
    "forward 2 0 90",
    "loss 2 90 30",
    "loss 1 120 80",
  ]);
});

it("the one that is looked at has the whole width", () => {
  const shown = placed(root, ["main", "loss"], 200).map(
    (one) => `${one.node.name} ${one.depth} ${one.width}`,
  );
  expect(shown).toEqual(["all 0 200", "main 1 200", "loss 2 200"]);
  expect(known(root, ["main", "gone"]).path).toEqual(["main"]);
});

it("bytes that are found are counted once", () => {
  expect(matchedBytes(root, ["loss"])).toBe(55);
  expect(matchedBytes(root, ["main"])).toBe(60);
  expect(matchedBytes(root, [])).toBe(0);
});

it("what is found has all that is below it", () => {
  const all = placed(root, [], 200);
  const names = (words: string[]) =>
    [...(foundIn(all, words) ?? [])].map((one) => one.path.join("/"));
  expect(names(["main"])).toEqual(["main", "main/forward", "main/loss"]);
  expect(names(["loss"])).toEqual(["main/loss", "loss"]);
  expect(foundIn(all, [])).toBeNull();
});

it("a point belongs to the node under it", () => {
  const all = placed(root, [], 200);
  expect(nodeAt(all, 100, ROW_HEIGHT * 2 + 1)?.path).toEqual(["main", "loss"]);
  expect(nodeAt(all, 199, ROW_HEIGHT * 2 + 1)).toBeNull();
});

it("is walked through with the arrows", () => {
  const all = placed(root, [], 200);
  const to = (from: string[], key: string) => neighbour(all, from, key)?.path.join("/") ?? null;
  expect(to([], "ArrowDown")).toBe("main");
  expect(to(["main"], "ArrowDown")).toBe("main/forward");
  expect(to(["main", "forward"], "ArrowRight")).toBe("main/loss");
  expect(to(["main", "forward"], "ArrowDown")).toBeNull();
  expect(to(["main"], "ArrowRight")).toBe("loss");
  expect(to(["main", "loss"], "ArrowUp")).toBe("main");
  expect(to(["gone"], "ArrowLeft")).toBe("");
});
