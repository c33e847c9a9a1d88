// Moves between allocations with the arrows: left and right in the order of allocation, up and down
// in the stack.

import type { AllocationTile, Ribbon } from "../../api/types.gen";
import type { Window } from "../../render/blit";

/** An allocation that is shown by itself. */
export interface WalkedRibbon {
  readonly id: number;
  readonly category: string;
  readonly bytes: number;
  /** Its begin and end in the shown tiles, in positions on the axis. */
  readonly from: number;
  readonly to: number;
}

/** The chosen allocation, and the position for finding its neighbours above and below. */
export interface Walk {
  readonly id: number;
  readonly at: number;
}

/** The allocations of some tiles that overlap a window, in the order of allocation. */
export function ribbonsIn(
  tiles: readonly AllocationTile[],
  window: Window,
  hidden: ReadonlySet<string>,
): WalkedRibbon[] {
  const found = new Map<number, WalkedRibbon>();
  for (const tile of tiles) {
    for (const shape of tile.shapes) {
      const from = shape.xs[0] ?? 0;
      const to = shape.xs.at(-1) ?? 0;
      const category = tile.categories[shape.category] ?? "unknown";
      if (to < window.from || from > window.to || hidden.has(category)) continue;
      const known = found.get(shape.id);
      found.set(shape.id, {
        id: shape.id,
        category,
        bytes: shape.bytes,
        from: Math.min(from, known?.from ?? from),
        to: Math.max(to, known?.to ?? to),
      });
    }
  }
  return [...found.values()].sort((one, other) => one.from - other.from || one.id - other.id);
}

/** The next or previous allocation in time; at the beginning, the first or last one. */
export function besides(
  ribbons: readonly WalkedRibbon[],
  walk: Walk | null,
  by: 1 | -1,
  window: Window,
): Walk | null {
  const here = walk ? ribbons.findIndex((one) => one.id === walk.id) : -1;
  const next = here < 0 ? ribbons.at(by > 0 ? 0 : -1) : ribbons[here + by];
  return next ? { id: next.id, at: middleOf(next, window) } : null;
}

/** The one above or below it at the same position. */
export function stacked(
  tiles: readonly AllocationTile[],
  walk: Walk,
  by: 1 | -1,
  hidden: ReadonlySet<string>,
): Walk | null {
  const tile = tiles.find((one) => walk.at >= one.from && walk.at <= one.to);
  const pile = (tile?.shapes ?? [])
    .filter((shape) => !hidden.has(tile?.categories[shape.category] ?? "unknown"))
    .flatMap((shape) => {
      const low = lowAt(shape, walk.at);
      return low === null ? [] : [{ id: shape.id, low }];
    })
    .sort((one, other) => one.low - other.low);
  const next = pile[pile.findIndex((one) => one.id === walk.id) + by];
  return next ? { id: next.id, at: walk.at } : null;
}

/** The middle of the part of it that is shown. */
function middleOf(ribbon: WalkedRibbon, window: Window): number {
  return (Math.max(ribbon.from, window.from) + Math.min(ribbon.to, window.to)) / 2;
}

function lowAt(shape: Ribbon, at: number): number | null {
  for (let index = 0; index + 1 < shape.xs.length; index += 1) {
    if (at >= (shape.xs[index] ?? 0) && at < (shape.xs[index + 1] ?? 0))
      return shape.ys[index] ?? null;
  }
  return null;
}
