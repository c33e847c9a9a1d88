import { describe, expect, it } from "vitest";
import {
  barAt,
  filterLives,
  foldModules,
  foldStaying,
  type Life,
  lanes,
  livesWithin,
  type ModuleLives,
  stays,
} from "./lanes";

let next = 0;
function life(
  allocated: number | null,
  freed: number | null,
  bytes = 100,
  name: string | null = null,
): Life {
  next += 1;
  return {
    id: next,
    name,
    bytes,
    category: "activation",
    phase: "forward",
    allocated_seconds: allocated,
    freed_seconds: freed,
  };
}

const OPTIONS = { end: 10, gap: 0, sort: "time" } as const;

describe("lanes of lifetimes", () => {
  it("never lets two bars of a lane overlap", () => {
    const tensors = Array.from({ length: 300 }, (_, at) =>
      life((at * 7) % 50, ((at * 7) % 50) + 1 + ((at * 13) % 9), 1 + ((at * 31) % 1000)),
    );
    const bars = lanes([{ module: "m", tensors }], { ...OPTIONS, end: 60 }).modules[0]?.bars ?? [];
    expect(bars.length).toBe(300);
    for (const one of bars) {
      for (const other of bars) {
        if (one === other || one.y !== other.y) continue;
        expect(one.to <= other.from || other.to <= one.from).toBe(true);
      }
    }
  });

  it("puts one after the other into one lane, and what overlaps below", () => {
    const tensors = [life(0, 1), life(1, 2), life(1.5, 3)];
    const ys =
      lanes([{ module: null, tensors }], OPTIONS).modules[0]?.bars.map((bar) => bar.y) ?? [];
    expect(ys[0]).toBe(ys[1]);
    expect(ys[2]).toBeGreaterThan(ys[1] ?? 0);
  });

  it("shows what was live before the recording from its beginning, and what stays to its end", () => {
    const bar = lanes([{ module: null, tensors: [life(null, null)] }], OPTIONS).modules[0]?.bars[0];
    expect([bar?.from, bar?.to]).toEqual([0, 10]);
  });

  it("draws larger tensors higher", () => {
    const { modules } = lanes(
      [{ module: "m", tensors: [life(0, 1, 1000), life(0, 1, 10)] }],
      OPTIONS,
    );
    const [large, small] = modules[0]?.bars ?? [];
    expect(large?.height).toBeGreaterThan(2 * (small?.height ?? 0));
  });

  it("does not let one bar for many make the others small", () => {
    const many = { ...life(0, null, 1_000_000), count: 50 };
    const { modules } = lanes([{ module: "m", tensors: [many, life(0, 1, 100)] }], OPTIONS);
    const [first, second] = modules[0]?.bars ?? [];
    expect(second?.height).toBe(first?.height);
    expect(modules[0]?.count).toBe(51);
  });

  it("has a lane for each name in a module that is open, in the order of first allocations", () => {
    const tensors = [
      life(2, 3, 9, "b"),
      life(0, 1, 5, "a"),
      life(4, 5, 7, "a"),
      life(4, 6, 7, "a"),
    ];
    const { modules } = lanes([{ module: "m", tensors }], {
      ...OPTIONS,
      isOpen: (module) => module === "m",
    });
    const [module] = modules;
    expect(module?.names.map(({ name, count, bytes }) => [name, count, bytes])).toEqual([
      ["a", 3, 7],
      ["b", 1, 9],
    ]);
    const [a, b] = module?.names ?? [];
    // Two of them are live at once: a second lane below the same name.
    expect(a && b && b.y - a.y).toBe(2 * ((b?.height ?? 0) || 1));
    const inA = (module?.bars ?? []).filter((bar) => bar.tensor.name === "a");
    expect(inA.every((bar) => a && bar.y >= a.y && bar.y < a.y + a.height)).toBe(true);
    expect(lanes([{ module: "m", tensors }], OPTIONS).modules[0]?.names).toEqual([]);
  });

  it("keeps the order of first use, or sorts modules by bytes", () => {
    const rows: ModuleLives<Life>[] = [
      { module: "first", tensors: [life(0, 1, 10)] },
      { module: "second", tensors: [life(1, 2, 99)] },
    ];
    const names = (sort: "time" | "bytes") =>
      lanes(rows, { ...OPTIONS, sort }).modules.map((module) => module.module);
    expect(names("time")).toEqual(["first", "second"]);
    expect(names("bytes")).toEqual(["second", "first"]);
  });

  it("tiles the height with modules", () => {
    const rows = ["a", "b", "c"].map((module) => ({ module, tensors: [life(0, 1), life(0, 1)] }));
    const layout = lanes(rows, OPTIONS);
    let y = 0;
    for (const module of layout.modules) {
      expect(module.y).toBe(y);
      y += module.height;
      for (const bar of module.bars) expect(bar.y + bar.height).toBeLessThanOrEqual(y);
    }
    expect(layout.height).toBe(y);
  });

  it("finds the bar under a point, and one that is too thin to be met", () => {
    const layout = lanes([{ module: "m", tensors: [life(1, 1.001), life(4, 6)] }], OPTIONS);
    const bars = layout.modules[0]?.bars ?? [];
    const y = (bars[0]?.y ?? 0) + 1;
    expect(barAt(layout, 5, y, 0.1)?.from).toBe(4);
    expect(barAt(layout, 1.05, y, 0.1)?.from).toBe(1);
    expect(barAt(layout, 2, y, 0.1)).toBeNull();
    expect(barAt(layout, 5, layout.height + 5, 0.1)).toBeNull();
  });
});

describe("modules", () => {
  it("fold into their ancestors, in order of first use", () => {
    const rows = [
      { module: "h.0.attn", tensors: [life(0, 1)] },
      { module: "h.1.attn", tensors: [life(1, 2)] },
      { module: "h.0.mlp", tensors: [life(2, 3)] },
      { module: null, tensors: [life(3, 4)] },
    ];
    expect(foldModules(rows, 2).map((row) => [row.module, row.tensors.length])).toEqual([
      ["h.0", 2],
      ["h.1", 1],
      [null, 1],
    ]);
    expect(foldModules(rows, 9).length).toBe(4);
  });

  it("have one bar for all of a category that stays, and bars of their own for what comes and goes", () => {
    const rows = [
      { module: "h.0", tensors: [life(0, null, 10), life(1, null, 20), life(2, 3, 5)] },
      { module: "h.1", tensors: [life(0, null, 7)] },
    ];
    const together = (tensors: readonly Life[], index: number): Life => ({
      ...life(
        0,
        null,
        tensors.reduce((sum, each) => sum + each.bytes, 0),
      ),
      id: -index,
    });
    const folded = foldStaying(rows, (each) => each.freed_seconds === null, together);
    expect(folded.map((row) => row.tensors.map((each) => each.bytes))).toEqual([[30, 5], [7]]);
    expect(folded[1]?.tensors[0]).toBe(rows[1]?.tensors[0]);
  });

  it("have what stays when nothing happens to it in the window, or only the end of the program", () => {
    const window = { from: 2, to: 4 };
    expect(stays(life(0, null), window, 100)).toBe(true);
    expect(stays(life(3, null), window, 100)).toBe(true);
    expect(stays(life(3, 99), window, 100)).toBe(true);
    expect(stays(life(90, 99), window, 100)).toBe(false);
    expect(stays(life(1, 5), window, 100)).toBe(true);
    expect(stays(life(3, 5), window, 100)).toBe(false);
    expect(stays(life(1, 3), window, 100)).toBe(false);
  });

  it("are left out when none of their tensors was live in a window", () => {
    const rows = [
      { module: "before", tensors: [life(0, 1)] },
      { module: "within", tensors: [life(0, 1), life(0, 3), life(2.5, null)] },
      { module: "after", tensors: [life(5, 6)] },
    ];
    const found = livesWithin(rows, { from: 2, to: 4 });
    expect(found.map((row) => [row.module, row.tensors.length])).toEqual([["within", 2]]);
  });

  it("are filtered by every word, in whatever names a tensor", () => {
    const rows = [
      { module: "h.0.attn", tensors: [life(0, 1, 1, "qkv"), life(0, 1, 1, "out")] },
      { module: "head", tensors: [life(1, 2, 1, "logits")] },
    ];
    expect(filterLives(rows, "ATTN qkv").map((row) => row.tensors.map((t) => t.name))).toEqual([
      ["qkv"],
    ]);
    expect(filterLives(rows, "forward").length).toBe(2);
    expect(filterLives(rows, "  ")).toEqual(rows);
    expect(filterLives(rows, "none such")).toEqual([]);
  });
});
