// Ranks as sentences.

import type { Rank, Ranks } from "../../api/types.gen";
import { counted, formatBytes, formatShare } from "../../base/bytes";
import { fromMedian } from "./bars";

export function sentence(answer: Ranks): string {
  const { ranks, median } = answer;
  if (ranks.length === 0 || median === null) return "Nothing was allocated in these recordings.";
  const lowest = ranks.reduce((one, other) => (other.peak < one.peak ? other : one));
  const highest = ranks.reduce((one, other) => (other.peak > one.peak ? other : one));
  const count = answer.outliers.length;
  const out = count === 0 ? "none stands out" : counted(count, "stands out", "stand out");
  return `${counted(ranks.length, "peak")}, from ${formatBytes(lowest.peak)} (${rankName(lowest)}) to ${formatBytes(highest.peak)} (${rankName(highest)}); the median is ${formatBytes(median)}; ${out}.`;
}

export function outlierSentence(rank: Rank, median: number): string {
  const { bytes, side } = fromMedian(rank.peak, median);
  return `${rankName(rank)} stands out: ${formatBytes(rank.peak)} is ${formatBytes(bytes)} (${formatShare(bytes, median)}) ${side} the median.`;
}

export function rankName(rank: Rank): string {
  const name = rank.rank === null ? rank.name : `rank ${rank.rank}`;
  return rank.device === "cuda:0" || rank.device === "cpu" ? name : `${name}, ${rank.device}`;
}
