import { describe, expect, it } from "vitest";
import {
  blockAt,
  type Extent,
  firstBeyond,
  ROW_PITCH,
  rowBytes,
  rowOf,
  segmentAt,
  segmentRows,
} from "./rows";

const MIB = 2 ** 20;

function segments(...sizes: number[]): Extent[] {
  return sizes.map((bytes, index) => ({
    address: `0x${(index + 1).toString(16)}`,
    bytes,
    group: "large",
  }));
}

/** `0:0-4 1:0-4 | 2:0-8`: the parts of each row. */
function picture(rows: ReturnType<typeof segmentRows>): string {
  const part = (each: { segment: number; from: number; to: number }) =>
    `${each.segment}:${each.from / MIB}-${each.to / MIB}`;
  return rows.rows.map((row) => row.parts.map(part).join(" ")).join(" | ");
}

describe("rows of segments", () => {
  it("gives each of a few segments a row of its own, as wide as the largest", () => {
    expect(rowBytes([20 * MIB, 20 * MIB, 12 * MIB])).toBe(20 * MIB);
    expect(picture(segmentRows(segments(20 * MIB, 20 * MIB, 12 * MIB)))).toBe(
      "0:0-20 | 1:0-20 | 2:0-12",
    );
  });

  it("lays many small segments side by side", () => {
    const layout = segmentRows(segments(...Array.from({ length: 100 }, () => 2 * MIB)));
    expect(layout.groups[0]?.rowBytes).toBe(16 * MIB);
    expect(layout.rows.length).toBe(13);
    expect(layout.rows[0]?.parts.map((part) => part.start / MIB)).toEqual([
      0, 2, 4, 6, 8, 10, 12, 14,
    ]);
  });

  it("wraps a segment that is far larger than a row, and lets no other share its last row", () => {
    expect(picture(segmentRows(segments(10 * MIB, 2 * MIB), "address", 4 * MIB))).toBe(
      "0:0-4 | 0:4-8 | 0:8-10 | 1:0-2",
    );
    const layout = segmentRows(segments(4096 * MIB));
    expect(layout.rows.length).toBeLessThan(40);
    expect(layout.rows.length).toBeGreaterThan(4);
  });

  it("covers every byte of every segment once, whatever the row", () => {
    const sizes = [7, 1, 30, 2, 2, 19, 64, 5].map((size) => size * MIB);
    for (const wanted of [null, 2 * MIB, 3 * MIB, 64 * MIB, 1024 * MIB]) {
      const covered = sizes.map(() => 0);
      for (const row of segmentRows(segments(...sizes), "size", wanted).rows) {
        let free = 0;
        for (const part of row.parts) {
          expect(part.start).toBe(free);
          expect(part.from).toBe(covered[part.segment]);
          covered[part.segment] = part.to;
          free += part.to - part.from;
        }
        if (wanted !== null) expect(free).toBeLessThanOrEqual(wanted);
      }
      expect(covered).toEqual(sizes);
    }
  });

  it("orders by address as a number, or by size", () => {
    const some = [
      { address: "0x7f00", bytes: 8 * MIB, group: "large" },
      { address: "0xa00", bytes: 4 * MIB, group: "large" },
      { address: "0x7e00", bytes: 2 * MIB, group: "large" },
    ];
    const order = (by: "address" | "size") =>
      segmentRows(some, by).rows.flatMap((row) => row.parts.map((part) => part.segment));
    expect(order("address")).toEqual([1, 2, 0]);
    expect(order("size")).toEqual([0, 1, 2]);
  });

  it("keeps groups apart, that with most bytes first", () => {
    const layout = segmentRows([
      { address: "0x1", bytes: 2 * MIB, group: "small" },
      { address: "0x2", bytes: 20 * MIB, group: "large" },
      { address: "0x3", bytes: 2 * MIB, group: "small" },
    ]);
    expect(layout.groups.map((group) => [group.name, group.segments, group.bytes / MIB])).toEqual([
      ["large", 1, 20],
      ["small", 2, 4],
    ]);
    expect(layout.rows.map((row) => row.group)).toEqual([0, 1, 1]);
  });

  it("has nothing to show of nothing", () => {
    expect(segmentRows([])).toEqual({ groups: [], rows: [], height: 0 });
  });

  it("finds the segment and the offset under a point", () => {
    const layout = segmentRows(segments(10 * MIB, 2 * MIB), "address", 4 * MIB);
    const first = layout.rows[0]?.y ?? 0;
    expect(segmentAt(layout, first + ROW_PITCH + 3, () => MIB)).toEqual({
      segment: 0,
      offset: 5 * MIB,
    });
    expect(segmentAt(layout, first + 3 * ROW_PITCH + 3, () => MIB)).toEqual({
      segment: 1,
      offset: MIB,
    });
    expect(segmentAt(layout, first + 3 * ROW_PITCH + 3, () => 3 * MIB)).toBeNull();
    expect(segmentAt(layout, first + ROW_PITCH - 1, () => MIB)).toBeNull();
    expect(segmentAt(layout, 0, () => MIB)).toBeNull();
  });

  it("finds the row of an offset", () => {
    const layout = segmentRows(segments(10 * MIB, 2 * MIB), "address", 4 * MIB);
    expect(rowOf(layout, 0, 5 * MIB)?.y).toBe(layout.rows[1]?.y);
    expect(rowOf(layout, 1, 0)?.y).toBe(layout.rows[3]?.y);
    expect(rowOf(layout, 1, 3 * MIB)).toBeNull();
  });

  it("finds the block that covers an offset", () => {
    const blocks = [
      { offset: 0, bytes: 512 },
      { offset: 512, bytes: 1024 },
      { offset: 2048, bytes: 512 },
    ];
    expect(blockAt(blocks, 511)).toBe(blocks[0]);
    expect(blockAt(blocks, 512)).toBe(blocks[1]);
    expect(blockAt(blocks, 1600)).toBeNull();
    expect(blockAt(blocks, 2560)).toBeNull();
    expect(blockAt([], 0)).toBeNull();
  });

  it("finds the first block of a row", () => {
    const blocks = [
      { offset: 0, bytes: 512 },
      { offset: 512, bytes: 1024 },
      { offset: 2048, bytes: 512 },
    ];
    expect([0, 511, 512, 1600, 2560].map((offset) => firstBeyond(blocks, offset))).toEqual([
      0, 0, 1, 2, 3,
    ]);
  });
});
