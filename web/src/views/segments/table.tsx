// The segments as a table, a row for each.

import { useMemo } from "preact/hooks";
import type { Segments } from "../../api/types.gen";
import { formatBytes, formatCount, formatShare } from "../../base/bytes";
import { type Column, Table } from "../../render/table";
import { groupName } from "./words";

interface SegmentLine {
  readonly address: string;
  readonly group: string;
  readonly bytes: number;
  readonly used: number;
  readonly free: number;
  readonly largest: number;
  readonly blocks: number;
}

export function SegmentTable({ answer }: { answer: Segments }) {
  const lines = useMemo(() => segmentLines(answer), [answer]);
  return (
    <Table
      name="segments"
      columns={COLUMNS}
      rows={lines}
      order={{ name: "bytes", isDescending: true }}
    />
  );
}

export function segmentLines(answer: Segments): SegmentLine[] {
  return answer.segments.map((segment) => {
    let [used, free, largest, blocks] = [0, 0, 0, 0];
    for (const block of segment.blocks) {
      if (block.state === "live" || block.state === "pending_free") {
        used += block.bytes;
        blocks += 1;
      } else if (block.state === "free") {
        free += block.bytes;
        largest = Math.max(largest, block.bytes);
      }
    }
    const { address, bytes } = segment;
    return { address, group: groupName(segment), bytes, used, free, largest, blocks };
  });
}

function bytes(
  name: "bytes" | "used" | "free" | "largest",
  title: string,
  bar?: (line: SegmentLine) => number,
): Column<SegmentLine> {
  return {
    name,
    title,
    isNumber: true,
    value: (line) => line[name],
    cell: (line) => formatBytes(line[name]),
    ...(bar ? { bar } : {}),
  };
}

const COLUMNS: readonly Column<SegmentLine>[] = [
  { name: "address", title: "Address", width: "150px", value: (line) => line.address },
  { name: "group", title: "Kind", value: (line) => line.group, hint: (line) => line.group },
  bytes("bytes", "Bytes"),
  bytes("used", "In use", (line) => line.used / Math.max(1, line.bytes)),
  {
    name: "share",
    title: "Share",
    isNumber: true,
    width: "80px",
    value: (line) => line.used / Math.max(1, line.bytes),
    cell: (line) => formatShare(line.used, line.bytes),
  },
  bytes("free", "Free"),
  bytes("largest", "Largest free"),
  {
    name: "blocks",
    title: "Blocks",
    isNumber: true,
    width: "80px",
    value: (line) => line.blocks,
    cell: (line) => formatCount(line.blocks),
  },
];
