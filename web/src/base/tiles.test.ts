import { describe, expect, it } from "vitest";
import { levelFor, parent, tilesIn, wantedTiles } from "./tiles";

describe("the level", () => {
  it("has columns of one to two pixels", () => {
    for (const span of [10, 7, 1, 0.03, 0.0001]) {
      const level = levelFor({ from: 0, to: span }, 10, 1200, 512, 30);
      const pixels = (10 / (2 ** level * 512) / span) * 1200;
      expect(pixels).toBeGreaterThanOrEqual(1 - 1e-6);
      expect(pixels).toBeLessThan(2 + 1e-6);
    }
  });

  it("is no deeper than there are events, and never below the whole", () => {
    expect(levelFor({ from: 0, to: 1e-6 }, 10, 1200, 512, 7)).toBe(7);
    expect(levelFor({ from: 0, to: 10 }, 10, 200, 512, 7)).toBe(0);
    expect(levelFor({ from: 1, to: 1 }, 10, 1200, 512, 7)).toBe(0);
  });
});

describe("tiles", () => {
  it("of a window are those that it touches, and no more", () => {
    expect(tilesIn(3, 8, 2, 4).map((name) => name.tile)).toEqual([2, 3]);
    expect(tilesIn(3, 8, 1.5, 4.1).map((name) => name.tile)).toEqual([1, 2, 3, 4]);
    expect(tilesIn(3, 8, 7.5, 8).map((name) => name.tile)).toEqual([7]);
    expect(tilesIn(0, 8, 0, 8)).toEqual([{ level: 0, tile: 0 }]);
  });

  it("lie in one of the level above", () => {
    expect(parent({ level: 3, tile: 5 })).toEqual({ level: 2, tile: 2 });
    expect(parent({ level: 0, tile: 0 })).toBeNull();
  });

  it("are wanted once each: the whole, what is seen, what is beside it", () => {
    const wanted = wantedTiles(3, 8, 2, 5).map((name) => `${name.level}/${name.tile}`);
    expect(wanted.slice(0, 2)).toEqual(["0/0", "3/3"]);
    expect([...wanted].sort()).toEqual(["0/0", "2/1", "2/2", "3/1", "3/2", "3/3", "3/4", "3/5"]);
  });
});
