// Segments and blocks as sentences.

import type { SegmentBlock, Segments } from "../../api/types.gen";
import { counted, formatBytes, formatShare } from "../../base/bytes";

export type Segment = Segments["segments"][number];

/** `large · pool 3 · stream 0x7f00`: the name of a group that shares memory with no other. */
export function groupName(segment: Segment): string {
  const pool = isDefault(segment.pool) ? "" : ` · pool ${segment.pool}`;
  const stream = isDefault(segment.stream) ? "" : ` · stream ${segment.stream}`;
  return `${segment.kind}${pool}${stream}`;
}

function isDefault(value: string | number): boolean {
  return value === 0 || value === "0x0";
}

export function stateName(block: SegmentBlock): string {
  return {
    live: "in use",
    pending_free: "pending free",
    free: "free",
    unmapped: "not mapped",
  }[block.state];
}

/** The description of the picture for screen readers. */
export function segmentsSentence(answer: Segments): string {
  const at = answer.fragmentation;
  const free = `${formatBytes(at.free)} free (${formatShare(at.free, at.reserved)}) in ${counted(at.free_blocks, "block")}, the largest ${formatBytes(at.largest_free)}`;
  const skipped = answer.skipped > 0 ? `; ${counted(answer.skipped, "more block")} not shown` : "";
  return `${counted(answer.segments.length, "segment")} of ${formatBytes(at.reserved)}: ${free}${skipped}`;
}

/** The address of a block, computed with `BigInt`: addresses exceed exact numbers. */
export function blockAddress(segment: Segment, block: SegmentBlock): string {
  try {
    return `0x${(BigInt(segment.address) + BigInt(block.offset)).toString(16)}`;
  } catch {
    return segment.address;
  }
}

/** The bytes in use of each category, the largest first. */
export function byCategory(answer: Segments): { index: number; name: string; bytes: number }[] {
  const bytes = answer.categories.map(() => 0);
  for (const segment of answer.segments) {
    for (const block of segment.blocks) {
      if (block.category !== null)
        bytes[block.category] = (bytes[block.category] ?? 0) + block.bytes;
    }
  }
  return answer.categories
    .map((name, index) => ({ index, name, bytes: bytes[index] ?? 0 }))
    .filter((category) => category.bytes > 0)
    .sort((one, other) => other.bytes - one.bytes);
}
