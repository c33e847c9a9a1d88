// Draws segments as rows of blocks: blocks in use in the colours of the timeline, free ones pale
// and hatched.

import type { SegmentBlock, Segments } from "../../api/types.gen";
import { counted, formatBytes, formatTick } from "../../base/bytes";
import { groupColour, type Inks, readableOn } from "../../base/colours";
import { hatch } from "../../render/hatch";
import { fitted, type Pen, type Size } from "../../render/pen";
import { firstBeyond, type Part, ROW_HEIGHT, type Row, type SegmentRows } from "./rows";

export interface SegmentPicture {
  readonly answer: Segments;
  readonly layout: SegmentRows;
  readonly top: number;
  /** The block under the pointer or the keys, and the allocation whose card is open. */
  readonly pointed: BlockPosition | null;
  readonly chosen: number | null;
  /** The owner whose blocks are highlighted, as an index into the owners of the answer. */
  readonly owner: number | null;
}

/** A block and the index of its segment. */
export interface BlockPosition {
  readonly segment: number;
  readonly block: SegmentBlock;
}

const GUTTER = 132;
const RIGHT = 10;

/** The scale from bytes of a row to pixels. */
export function rowScale(layout: SegmentRows, row: Row, width: number): number {
  const bytes = layout.groups[row.group]?.rowBytes ?? 1;
  return Math.max(1, width - GUTTER - RIGHT) / bytes;
}

/** The distance of a point from the row's beginning, in bytes. */
export function bytesAt(layout: SegmentRows, row: Row, width: number, x: number): number {
  return (x - GUTTER) / rowScale(layout, row, width);
}

export function drawSegments(pen: Pen, size: Size, inks: Inks, picture: SegmentPicture): void {
  const { layout, top } = picture;
  for (const group of layout.groups) {
    const y = group.y - top;
    if (y < -30 || y > size.height) continue;
    const label = `${counted(group.segments, "segment")}, ${formatBytes(group.bytes)}; a row is ${formatTick(group.rowBytes)}`;
    pen.text(10, y + 17, group.name, { fill: inks.ink, isBold: true });
    const x = 10 + pen.measure(group.name, 12, true) + 14;
    pen.text(x, y + 17, fitted(pen, label, size.width - x - 40), { fill: inks.quiet });
  }
  for (const row of layout.rows) {
    const y = row.y - top;
    if (y > size.height) break;
    if (y + ROW_HEIGHT < 0) continue;
    drawGutter(pen, inks, picture, row, y);
    for (const part of row.parts) drawPart(pen, size, inks, picture, row, part, y);
  }
}

function drawGutter(pen: Pen, inks: Inks, picture: SegmentPicture, row: Row, y: number): void {
  const [first, second] = row.parts;
  const segment = first && picture.answer.segments[first.segment];
  if (!first || !segment) return;
  const text = second
    ? counted(row.parts.length, "segment")
    : first.from > 0
      ? `+${formatTick(first.from)}`
      : shortAddress(segment.address);
  pen.text(GUTTER - 10, y + ROW_HEIGHT / 2, fitted(pen, text, GUTTER - 16, 11, "end"), {
    fill: inks.quiet,
    align: "end",
    baseline: "middle",
    size: 11,
  });
}

/** The last digits of an address: those of one process have a common beginning. */
export function shortAddress(address: string): string {
  return address.length > 12 ? `…${address.slice(-10)}` : address;
}

function drawPart(
  pen: Pen,
  size: Size,
  inks: Inks,
  picture: SegmentPicture,
  row: Row,
  part: Part,
  y: number,
): void {
  const segment = picture.answer.segments[part.segment];
  if (!segment) return;
  const scale = rowScale(picture.layout, row, size.width);
  const left = GUTTER + part.start * scale;
  const width = (part.to - part.from) * scale;
  pen.rect(left, y, width, ROW_HEIGHT, inks.free);
  if (segment.blocks.length > 0) hatch(pen, left, y, width, ROW_HEIGHT, inks.edge);
  else drawLeftOut(pen, inks, left, y, width);
  for (let at = firstBeyond(segment.blocks, part.from); at < segment.blocks.length; at += 1) {
    const block = segment.blocks[at];
    if (!block || block.offset >= part.to) break;
    const from = Math.max(block.offset, part.from);
    const to = Math.min(block.offset + block.bytes, part.to);
    const x = left + (from - part.from) * scale;
    drawBlock(pen, inks, picture, block, x, y, (to - from) * scale);
    if (picture.owner !== null && block.owner !== picture.owner && block.state !== "free")
      pen.rect(x, y, (to - from) * scale, ROW_HEIGHT, `${inks.panel}c0`);
    if (isMarked(picture, part.segment, block))
      pen.outline(x + 1, y + 1, Math.max(1, (to - from) * scale - 2), ROW_HEIGHT - 2, {
        stroke: inks.ink,
        width: 2,
      });
  }
  pen.outline(left + 0.5, y + 0.5, Math.max(1, width - 1), ROW_HEIGHT - 1, { stroke: inks.quiet });
}

/** Draws a segment whose blocks were left out, which may be free or in use. */
function drawLeftOut(pen: Pen, inks: Inks, x: number, y: number, width: number): void {
  pen.rect(x, y, width, ROW_HEIGHT, inks.edge);
  const text = fitted(pen, "blocks left out", width - 8, 11);
  pen.text(x + width / 2, y + ROW_HEIGHT / 2, text, {
    fill: inks.ink,
    align: "middle",
    baseline: "middle",
    size: 11,
  });
}

function isMarked(picture: SegmentPicture, segment: number, block: SegmentBlock): boolean {
  const { pointed, chosen } = picture;
  if (pointed?.segment === segment && pointed.block.offset === block.offset) return true;
  return chosen !== null && block.allocation === chosen;
}

function drawBlock(
  pen: Pen,
  inks: Inks,
  picture: SegmentPicture,
  block: SegmentBlock,
  x: number,
  y: number,
  width: number,
): void {
  if (block.state === "free") return;
  if (block.state === "unmapped") {
    pen.rect(x, y, width, ROW_HEIGHT, inks.panel);
    return;
  }
  const colour = blockColour(inks, picture.answer, block);
  pen.rect(x, y, width, ROW_HEIGHT, colour);
  if (block.state === "pending_free") hatch(pen, x, y, width, ROW_HEIGHT, inks.panel, 5);
  // Separate neighbours by a line, if there is space.
  if (width > 3) pen.rect(x + width - 1, y, 1, ROW_HEIGHT, inks.panel);
  const text = blockText(pen, picture.answer, block, width - 6);
  if (!text) return;
  pen.text(x + width / 2, y + ROW_HEIGHT / 2 + 0.5, text, {
    fill: readableOn(colour),
    align: "middle",
    baseline: "middle",
    size: 11,
  });
}

/** The size of a block, after its tensor or line if both fit. */
function blockText(pen: Pen, answer: Segments, block: SegmentBlock, room: number): string {
  const size = room > 18 ? formatTick(block.bytes) : "";
  if (!size || pen.measure(size, 11) > room) return "";
  const owner = block.owner === null ? undefined : answer.owners[block.owner];
  const name = owner && fileTail(owner.name ?? owner.location);
  const both = `${name} ${size}`;
  return name && pen.measure(both, 11) <= room ? both : size;
}

/** A location without its folders; a name stays whole. */
export function fileTail(name: string): string {
  const line = name.indexOf(":");
  return name.slice(name.lastIndexOf("/", line < 0 ? name.length : line) + 1);
}

export function blockColour(inks: Inks, answer: Segments, block: SegmentBlock): string {
  const name =
    block.category === null ? "unknown" : (answer.categories[block.category] ?? "unknown");
  return groupColour(inks, name, block.category ?? 0);
}
