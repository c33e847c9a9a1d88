// The table of ranks, and that of the lines that differ from rank to rank.

import type { Rank, RankLine, Ranks } from "../../api/types.gen";
import { formatBytes } from "../../base/bytes";
import type { Column } from "../../render/table";
import { fromMedian } from "./bars";
import { rankName } from "./words";

export function rankColumns(answer: Ranks): Column<Rank>[] {
  const highest = Math.max(1, ...answer.ranks.map((rank) => rank.peak));
  const median = answer.median ?? 0;
  return [
    {
      name: "rank",
      title: "Rank",
      isNumber: true,
      width: "80px",
      value: (rank) => rank.rank,
    },
    {
      name: "peak",
      title: "Allocated peak",
      isNumber: true,
      width: "160px",
      value: (rank) => rank.peak,
      cell: (rank) => formatBytes(rank.peak),
      bar: (rank) => rank.peak / highest,
    },
    {
      name: "from_median",
      title: "From the median",
      isNumber: true,
      width: "160px",
      value: (rank) => rank.peak - median,
      cell: (rank) => {
        const { bytes, side } = fromMedian(rank.peak, median);
        const text = bytes === 0 ? "0 B" : `${formatBytes(bytes)} ${side}`;
        return rank.is_outlier ? <b class="grew">! {text}</b> : text;
      },
    },
    {
      name: "reserved",
      title: "Reserved peak",
      isNumber: true,
      width: "130px",
      value: (rank) => rank.reserved_peak,
      cell: (rank) => (rank.reserved_peak === null ? "" : formatBytes(rank.reserved_peak)),
    },
    {
      name: "end",
      title: "At the end",
      isNumber: true,
      width: "120px",
      value: (rank) => rank.end,
      cell: (rank) => formatBytes(rank.end),
    },
    ...(answer.nodes.length > 0
      ? [
          {
            name: "node",
            title: "Node",
            width: "150px",
            value: (rank: Rank) => answer.nodes[rank.node ?? -1] ?? null,
          },
        ]
      : []),
    { name: "device", title: "Device", width: "90px", value: (rank) => rank.device },
    { name: "name", title: "Recording", value: (rank) => rank.name, hint: (rank) => rank.name },
  ];
}

export function lineColumns(answer: Ranks): Column<RankLine>[] {
  const apart = (line: RankLine) => line.highest - line.lowest;
  return [
    {
      name: "apart",
      title: "Apart",
      isNumber: true,
      width: "110px",
      value: apart,
      cell: (line) => formatBytes(apart(line)),
    },
    {
      name: "lowest",
      title: "Lowest",
      isNumber: true,
      width: "110px",
      value: (line) => line.lowest,
      cell: (line) => formatBytes(line.lowest),
    },
    {
      name: "median",
      title: "Median",
      isNumber: true,
      width: "110px",
      value: (line) => line.median,
      cell: (line) => formatBytes(line.median),
    },
    {
      name: "highest",
      title: "Highest",
      isNumber: true,
      width: "110px",
      value: (line) => line.highest,
      cell: (line) => formatBytes(line.highest),
    },
    {
      name: "furthest",
      title: "Furthest from the median",
      width: "190px",
      value: (line) => furthestName(answer, line),
    },
    {
      name: "location",
      title: "Line",
      isLocation: true,
      value: (line) => line.location,
      hint: (line) => line.location,
    },
  ];
}

function furthestName(answer: Ranks, line: RankLine): string {
  const rank = answer.ranks[line.furthest];
  return rank ? rankName(rank) : "";
}
