// Ranks as bars. With too many ranks for the width, a bar represents several, shows the highest,
// and is marked if one of them is an outlier.

export interface RankLevels {
  readonly peak: number;
  readonly is_outlier: boolean;
}

export interface RankBar {
  /** The first and last rank, by index in the answer. */
  readonly first: number;
  readonly last: number;
  /** The rank that the bar shows and a click opens: the highest, or the highest outlier. */
  readonly shown: number;
  readonly peak: number;
  readonly isOutlier: boolean;
}

/** The smallest width of a bar that can be pointed at. */
const NARROWEST = 6;

/** Bars from left to right, in the order of the ranks, that fit into a width. */
export function rankBars(ranks: readonly RankLevels[], width: number): RankBar[] {
  const perBar = Math.max(1, Math.ceil(ranks.length / Math.max(1, Math.floor(width / NARROWEST))));
  const bars: RankBar[] = [];
  for (let first = 0; first < ranks.length; first += perBar) {
    const last = Math.min(first + perBar, ranks.length) - 1;
    bars.push(bar(ranks, first, last));
  }
  return bars;
}

function bar(ranks: readonly RankLevels[], first: number, last: number): RankBar {
  let shown = first;
  for (let at = first; at <= last; at += 1) {
    const [one, best] = [ranks[at], ranks[shown]];
    if (!one || !best) continue;
    const isStranger = one.is_outlier && !best.is_outlier;
    if (isStranger || (one.is_outlier === best.is_outlier && one.peak > best.peak)) shown = at;
  }
  const found = ranks[shown];
  return { first, last, shown, peak: found?.peak ?? 0, isOutlier: found?.is_outlier ?? false };
}

/** The distance to the median and its side, as in `2.000 GiB (20.0 %) above the median`. */
export function fromMedian(
  peak: number,
  median: number,
): { bytes: number; side: string; percent: number | null } {
  const bytes = Math.abs(peak - median);
  const side = peak >= median ? "above" : "below";
  return { bytes, side, percent: median > 0 ? (100 * bytes) / median : null };
}
