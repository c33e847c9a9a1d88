import { describe, expect, it } from "vitest";
import {
  counted,
  formatBytes,
  formatChange,
  formatCount,
  formatPercentChange,
  formatShare,
  formatTick,
} from "./bytes";

describe("bytes", () => {
  it("are shown with four digits and binary units, as in the terminal", () => {
    const shown = [0, 1023, 1024, 10 * 1024, 154110268, 13.54 * 2 ** 30].map(formatBytes);
    expect(shown).toEqual(["0 B", "1023 B", "1.000 KiB", "10.00 KiB", "147.0 MiB", "13.54 GiB"]);
  });

  it("go to the next unit before they would round up to 1024.0", () => {
    expect(formatBytes(1024 * 1023.96)).toBe("1.000 MiB");
    expect(formatBytes(1024 * 1023.94)).toBe("1023.9 KiB");
  });

  it("say which way they changed", () => {
    expect([formatChange(2048), formatChange(-2048), formatChange(0)]).toEqual([
      "+2.000 KiB",
      "−2.000 KiB",
      "0 B",
    ]);
  });

  it("on an axis have no digits that say nothing", () => {
    expect([0, 512, 1536 * 2 ** 20, 2 ** 40].map(formatTick)).toEqual([
      "0",
      "512 B",
      "1.5 GiB",
      "1 TiB",
    ]);
  });
});

it("a share of nothing is not a number", () => {
  expect([formatShare(1, 3), formatShare(1, 0)]).toEqual(["33.3 %", ""]);
  // What is there is not 0.0 % of it.
  expect([formatShare(1, 1e6), formatShare(0, 1e6)]).toEqual(["<0.1 %", "0.0 %"]);
  expect([12.34, -1.06, 0].map(formatPercentChange)).toEqual(["+12.3 %", "−1.1 %", "0.0 %"]);
});

it("counts have separators and the right word", () => {
  expect([formatCount(1234567), counted(1, "event"), counted(12000, "event")]).toEqual([
    "1,234,567",
    "1 event",
    "12,000 events",
  ]);
});
