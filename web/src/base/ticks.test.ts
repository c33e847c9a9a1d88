import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { formatTimeTick } from "./seconds";
import { byteTicks, timeTicks } from "./ticks";

describe("ticks of time", () => {
  it("are round and do not drift", () => {
    const { at, step } = timeTicks(0, 1, 10);
    expect(at.map((seconds) => formatTimeTick(seconds, step))).toEqual([
      "0.0 s",
      "0.1 s",
      "0.2 s",
      "0.3 s",
      "0.4 s",
      "0.5 s",
      "0.6 s",
      "0.7 s",
      "0.8 s",
      "0.9 s",
      "1.0 s",
    ]);
  });

  it("lie inside the window, however far in it is", () => {
    const { at, step } = timeTicks(1.4683712, 1.4683789, 5);
    expect(step).toBeCloseTo(2e-6, 12);
    expect(at.every((seconds) => seconds >= 1.4683712 && seconds <= 1.4683789)).toBe(true);
    expect(at.map((seconds) => formatTimeTick(seconds, step))).toEqual([
      "1.468372 s",
      "1.468374 s",
      "1.468376 s",
      "1.468378 s",
    ]);
  });

  it("of no window are none", () => {
    expect(timeTicks(1, 1, 5).at).toEqual([]);
  });
});

describe("ticks of bytes", () => {
  it("are where an exported picture has them", () => {
    const table = readFileSync("../fixtures/ticks.json", "utf8");
    const rows = JSON.parse(table) as { highest: number; most: number; at: number[] }[];
    for (const { highest, most, at } of rows) expect(byteTicks(highest, most).at).toEqual(at);
  });

  it("are powers of two of a unit", () => {
    expect(byteTicks(154110268, 4).at.map((bytes) => bytes / 2 ** 20)).toEqual([0, 64, 128]);
    expect(byteTicks(9 * 2 ** 30, 5).step).toBe(2 * 2 ** 30);
  });

  it("never come in larger numbers than asked for", () => {
    for (const highest of [1, 1000, 1025, 123456789, 1e12]) {
      expect(byteTicks(highest, 6).at.length).toBeLessThanOrEqual(7);
    }
  });
});
