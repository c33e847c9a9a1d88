// The layout of segments: rows of one width in bytes, segments in groups that never share memory. A
// segment that is wider than a row continues in the next one; narrow ones are side by side. No
// drawing.

/** The facts about a segment that determine its position. */
export interface Extent {
  readonly address: string;
  readonly bytes: number;
  /** Segments with the same text form a group; memory never moves between groups. */
  readonly group: string;
}

/** A part of one segment on one row. */
export interface Part {
  readonly segment: number;
  /** Bytes from the segment's beginning. */
  readonly from: number;
  readonly to: number;
  /** Bytes from the row's beginning. */
  readonly start: number;
}

export interface Row {
  readonly y: number;
  readonly group: number;
  readonly parts: readonly Part[];
}

export interface Group {
  readonly name: string;
  readonly y: number;
  readonly segments: number;
  readonly bytes: number;
  readonly rowBytes: number;
}

export interface SegmentRows {
  readonly groups: readonly Group[];
  readonly rows: readonly Row[];
  readonly height: number;
}

export type Order = "address" | "size";

export const HEADER_HEIGHT = 26;
export const ROW_HEIGHT = 20;
export const ROW_PITCH = 24;
const GROUP_GAP = 10;

/** The largest number of rows, unless the user chooses narrower ones. */
const ROWS_TO_AIM_AT = 24;
/** Up to this many segments, each gets its own row. */
const FEW_SEGMENTS = 16;
/** Segments up to this size are not divided: they have few blocks. */
const LARGEST_IN_ONE_PIECE = 512 * 2 ** 20;

/**
 * The default bytes of a row: the largest segment if there are few segments; if there are many, or
 * one is far larger than the others, enough for all to fit into the picture.
 */
export function rowBytes(sizes: readonly number[]): number {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const largest = sizes.reduce((most, size) => Math.max(most, size), 1);
  const fair = 2 ** Math.ceil(Math.log2(Math.max(1, total / ROWS_TO_AIM_AT)));
  if (largest > LARGEST_IN_ONE_PIECE && largest > 2 * fair) return 2 * fair;
  return sizes.length <= FEW_SEGMENTS ? largest : Math.max(largest, fair);
}

/** Lays out segments; `wanted` is the user's choice of bytes in a row. */
export function segmentRows(
  segments: readonly Extent[],
  order: Order = "address",
  wanted: number | null = null,
): SegmentRows {
  const members = new Map<string, number[]>();
  segments.forEach((segment, index) => {
    const group = members.get(segment.group);
    if (group) group.push(index);
    else members.set(segment.group, [index]);
  });
  const bytesOf = (group: readonly number[]) => sum(group, (index) => segments[index]?.bytes ?? 0);
  const sorted = [...members].sort((one, other) => bytesOf(other[1]) - bytesOf(one[1]));
  const groups: Group[] = [];
  const rows: Row[] = [];
  let y = 0;
  for (const [name, group] of sorted) {
    const width = wanted ?? rowBytes(group.map((index) => segments[index]?.bytes ?? 0));
    groups.push({ name, y, segments: group.length, bytes: bytesOf(group), rowBytes: width });
    y += HEADER_HEIGHT;
    for (const parts of pack(inOrder(segments, group, order), width)) {
      rows.push({ y, group: groups.length - 1, parts });
      y += ROW_PITCH;
    }
    y += GROUP_GAP;
  }
  return { groups, rows, height: Math.max(0, y - GROUP_GAP) };
}

function inOrder(
  segments: readonly Extent[],
  group: readonly number[],
  order: Order,
): [number, number][] {
  const found = group.flatMap((index): [number, Extent][] => {
    const segment = segments[index];
    return segment ? [[index, segment]] : [];
  });
  found.sort(([, one], [, other]) =>
    order === "size" && one.bytes !== other.bytes
      ? other.bytes - one.bytes
      : byAddress(one.address, other.address),
  );
  return found.map(([index, segment]) => [index, segment.bytes]);
}

/** Compares hexadecimal texts without leading zeros: by length, then by digits. */
function byAddress(one: string, other: string): number {
  if (one.length !== other.length) return one.length - other.length;
  return one < other ? -1 : one > other ? 1 : 0;
}

function pack(segments: readonly [number, number][], width: number): Part[][] {
  const rows: Part[][] = [];
  let row: Part[] = [];
  let used = 0;
  const close = () => {
    if (row.length > 0) rows.push(row);
    row = [];
    used = 0;
  };
  for (const [segment, bytes] of segments) {
    if (used + bytes > width) close();
    let from = 0;
    while (bytes - from > width) {
      rows.push([{ segment, from, to: from + width, start: 0 }]);
      from += width;
    }
    row.push({ segment, from, to: bytes, start: used });
    used += bytes - from;
    // The rest of a long segment keeps its row: with another segment it would look like one.
    if (from > 0) close();
  }
  close();
  return rows;
}

/**
 * The segment and the offset in it at a height and a distance in bytes from the row's beginning.
 */
export function segmentAt(
  layout: SegmentRows,
  y: number,
  part: (row: Row) => number,
): { segment: number; offset: number } | null {
  const rows = layout.rows;
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rows[middle]?.y ?? 0) <= y) low = middle + 1;
    else high = middle;
  }
  const row = rows[low - 1];
  if (!row || y > row.y + ROW_HEIGHT) return null;
  const bytes = part(row);
  for (const { segment, from, to, start } of row.parts) {
    if (bytes >= start && bytes < start + to - from)
      return { segment, offset: from + bytes - start };
  }
  return null;
}

/** The position of the row that contains an offset of a segment. */
export function rowOf(
  layout: SegmentRows,
  segment: number,
  offset: number,
): { y: number; height: number } | null {
  const row = layout.rows.find((each) =>
    each.parts.some((part) => part.segment === segment && offset >= part.from && offset < part.to),
  );
  return row ? { y: row.y, height: ROW_HEIGHT } : null;
}

/** The block that covers an offset; blocks are in the order of their offsets. */
export function blockAt<T extends { offset: number; bytes: number }>(
  blocks: readonly T[],
  offset: number,
): T | null {
  let low = 0;
  let high = blocks.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((blocks[middle]?.offset ?? 0) <= offset) low = middle + 1;
    else high = middle;
  }
  const block = blocks[low - 1];
  return block && offset < block.offset + block.bytes ? block : null;
}

/** The index of the first block that ends after an offset. */
export function firstBeyond(
  blocks: readonly { readonly offset: number; readonly bytes: number }[],
  offset: number,
): number {
  let low = 0;
  let high = blocks.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const block = blocks[middle];
    if (block && block.offset + block.bytes <= offset) low = middle + 1;
    else high = middle;
  }
  return low;
}

function sum<T>(values: readonly T[], of: (value: T) => number): number {
  return values.reduce((total, value) => total + of(value), 0);
}
