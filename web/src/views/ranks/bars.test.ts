import { describe, expect, it } from "vitest";
import { fromMedian, rankBars } from "./bars";

const rank = (peak: number, is_outlier = false) => ({ peak, is_outlier });

describe("bars of ranks", () => {
  it("has a bar for each rank where there is room", () => {
    const bars = rankBars([rank(3), rank(9, true)], 800);
    expect(bars.map((bar) => [bar.first, bar.last, bar.peak, bar.isOutlier])).toEqual([
      [0, 0, 3, false],
      [1, 1, 9, true],
    ]);
  });

  it("shows an outlier among thousands, also one that is lower than its neighbours", () => {
    const many = Array.from({ length: 4096 }, (_, at) => (at === 1234 ? rank(2, true) : rank(10)));
    const bars = rankBars(many, 600);
    expect(bars.length).toBeLessThanOrEqual(100);
    expect(bars.filter((bar) => bar.isOutlier).map((bar) => bar.shown)).toEqual([1234]);
    expect(bars.reduce((sum, bar) => sum + bar.last - bar.first + 1, 0)).toBe(4096);
  });

  it("shows the highest of several", () => {
    expect(rankBars([rank(1), rank(4), rank(2)], 6).map((bar) => bar.shown)).toEqual([1]);
  });
});

it("says how far a rank is from the median, and to which side", () => {
  expect(fromMedian(12, 10)).toEqual({ bytes: 2, side: "above", percent: 20 });
  expect(fromMedian(8, 10)).toEqual({ bytes: 2, side: "below", percent: 20 });
  expect(fromMedian(8, 0).percent).toBeNull();
});
