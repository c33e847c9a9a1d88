// What lies where in the picture: columns at a moment, groups at a height, and the moment that a column shows.

import type { Timeline, TimelineTile } from "../../api/types.gen";
import { type TileName, tilesIn } from "../../base/tiles";
import { ask } from "../../model/answer";
import type { Subject } from "../../model/recording";
import type { TileStore } from "../../model/tile_store";
import { columnAt } from "../../render/blit";

export interface Column {
  readonly tile: TimelineTile;
  readonly index: number;
}

/** The finest column that is there for a moment. */
export function columnOf(
  store: TileStore<"timeline/tile">,
  level: number,
  whole: number,
  seconds: number,
): Column | null {
  const [name] = tilesIn(level, whole, seconds, seconds + whole * 1e-12);
  const tile = store.around(name ?? { level: 0, tile: 0 });
  return tile ? { tile, index: columnAt(tile, tile.allocated.length, seconds) } : null;
}

/** The group at a height of what is shown, and the height with the groups that are switched off below it. */
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
 * The moment that a column shows: the one in it at which most was allocated. A column may stand for thousands of
 * events; the tile that has 512 columns in its place knows.
 */
export async function highestMoment(
  column: Column,
  timeline: Timeline,
  about: Subject,
  seconds: number,
): Promise<number> {
  const { tile, index } = column;
  const columns = tile.allocated.length;
  const width = (tile.to - tile.from) / columns;
  const from = tile.from + index * width;
  if ((tile.events[index] ?? 0) <= 1)
    return Math.min(about.seconds, Math.max(seconds, from + width));
  const name = finer(tile, index, columns, timeline.deepest_level);
  if (name.level <= tile.level) return Math.min(about.seconds, from + width);
  const { trace, device, revision } = about;
  const found = await ask({
    path: "timeline/tile",
    query: { trace, device, by: timeline.by, ...name },
    revision,
  });
  return highestIn(found, from, from + width, about.seconds);
}

/** The tile, as fine as there is, that begins where a column does. */
function finer(tile: TileName, index: number, columns: number, deepest: number): TileName {
  const deeper = Math.min(deepest, tile.level + Math.floor(Math.log2(columns)));
  const perColumn = 2 ** (deeper - tile.level) / columns;
  return {
    level: deeper,
    tile: Math.floor(tile.tile * 2 ** (deeper - tile.level) + index * perColumn),
  };
}

/** The end of the highest column between two moments. */
export function highestIn(tile: TimelineTile, from: number, to: number, whole: number): number {
  const columns = tile.allocated.length;
  const width = (tile.to - tile.from) / columns;
  const first = columnAt(tile, columns, from + width / 2);
  const last = columnAt(tile, columns, to - width / 2);
  let best = first;
  for (let at = first; at <= last; at += 1) {
    if ((tile.allocated[at] ?? 0) > (tile.allocated[best] ?? 0)) best = at;
  }
  return Math.min(whole, tile.from + (best + 1) * width);
}

/** The most bytes of these kinds in a window, as far as its tiles are there. */
export function highestInside(
  store: TileStore<"timeline/tile">,
  level: number,
  whole: number,
  window: { readonly from: number; readonly to: number },
  kinds: readonly ("allocated" | "active" | "reserved")[],
): number | null {
  let most: number | null = null;
  for (const name of tilesIn(level, whole, window.from, window.to)) {
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
