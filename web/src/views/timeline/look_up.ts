// Finds the column of a time, the group at a height, and the time that a column shows.

import type { Timeline, TimelineTile } from "../../api/types.gen";
import { lastTimeBefore, positionOf, secondsAt, type TimeAxis } from "../../base/axis";
import { type TileName, tilesIn } from "../../base/tiles";
import { ask } from "../../model/answer";
import { askedAxis } from "../../model/axis";
import type { Subject } from "../../model/recording";
import type { TileStore } from "../../model/tile_store";
import { columnAt } from "../../render/blit";

export interface Column {
  readonly tile: TimelineTile;
  readonly index: number;
}

/** The finest available column of a time. */
export function columnOf(
  store: TileStore<"timeline/tile">,
  level: number,
  axis: TimeAxis,
  seconds: number,
): Column | null {
  const position = positionOf(axis.knots, seconds);
  const tile = store.around(tileAt(level, axis.length, position));
  return tile ? { tile, index: columnAt(tile, tile.allocated.length, position) } : null;
}

/** The tile of a level that contains a position. */
export function tileAt(level: number, length: number, position: number): TileName {
  const [name] = tilesIn(level, length, position, position + length * 1e-12);
  return name ?? { level: 0, tile: 0 };
}

/** The group at a height of the shown stack, and that height including hidden groups below. */
export function groupAt(
  column: Column,
  timeline: Timeline,
  hidden: ReadonlySet<string>,
  bytes: number,
): { group: number; bytes: number } | null {
  let below = 0;
  let unseen = 0;
  for (const [index, group] of timeline.groups.entries()) {
    const height = column.tile.groups[index]?.[column.index] ?? 0;
    if (hidden.has(group.name)) {
      unseen += height;
      continue;
    }
    if (bytes >= below && bytes < below + height) return { group: index, bytes: bytes + unseen };
    below += height;
  }
  return null;
}

/**
 * The time that a column shows: that of its highest allocated bytes. A column may represent
 * thousands of events; a finer tile with 512 columns in its place has the time.
 */
export async function highestMoment(
  column: Column,
  timeline: Timeline,
  about: Subject,
  seconds: number,
): Promise<number> {
  const { tile, index } = column;
  const { knots } = timeline.axis;
  const columns = tile.allocated.length;
  const width = (tile.to - tile.from) / columns;
  const from = tile.from + index * width;
  const end = Math.max(secondsAt(knots, from), lastTimeBefore(knots, from + width));
  if ((tile.events[index] ?? 0) <= 1) return Math.min(about.seconds, Math.max(seconds, end));
  const name = finer(tile, index, columns, timeline.deepest_level);
  if (name.level <= tile.level) return Math.min(about.seconds, end);
  const { trace, device, revision } = about;
  const axis = askedAxis(timeline.axis.by);
  const found = await ask({
    path: "timeline/tile",
    query: { trace, device, by: timeline.by, axis, ...name },
    revision,
  });
  return Math.min(about.seconds, lastTimeBefore(knots, highestIn(found, from, from + width)));
}

/** The finest tile that begins where a column does. */
function finer(tile: TileName, index: number, columns: number, deepest: number): TileName {
  const deeper = Math.min(deepest, tile.level + Math.floor(Math.log2(columns)));
  const perColumn = 2 ** (deeper - tile.level) / columns;
  return {
    level: deeper,
    tile: Math.floor(tile.tile * 2 ** (deeper - tile.level) + index * perColumn),
  };
}

/** The end of the highest column between two positions. */
export function highestIn(tile: TimelineTile, from: number, to: number): number {
  const columns = tile.allocated.length;
  const width = (tile.to - tile.from) / columns;
  const first = columnAt(tile, columns, from + width / 2);
  const last = columnAt(tile, columns, to - width / 2);
  let best = first;
  for (let at = first; at <= last; at += 1) {
    if ((tile.allocated[at] ?? 0) > (tile.allocated[best] ?? 0)) best = at;
  }
  return tile.from + (best + 1) * width;
}

/** The most bytes of these kinds in a part of the axis, as far as its tiles are available. */
export function highestInside(
  store: TileStore<"timeline/tile">,
  level: number,
  length: number,
  window: { readonly from: number; readonly to: number },
  kinds: readonly ("allocated" | "active" | "reserved")[],
): number | null {
  let most: number | null = null;
  for (const name of tilesIn(level, length, window.from, window.to)) {
    const tile = store.around(name);
    if (!tile) continue;
    const columns = tile.allocated.length;
    const first = columnAt(tile, columns, window.from);
    const last = columnAt(tile, columns, window.to);
    for (const kind of kinds) {
      for (let at = first; at <= last; at += 1) most = Math.max(most ?? 0, tile[kind]?.[at] ?? 0);
    }
  }
  return most;
}
