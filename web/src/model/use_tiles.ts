// A store of tiles that follows the chosen recording. Until a new store is complete, the previous
// one is shown.

import { effect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Query } from "../api/questions";
import { type TilePath, TileStore } from "./tile_store";

export interface Tiles<P extends TilePath> {
  readonly now: TileStore<P>;
  before: TileStore<P> | null;
}

/** The store for `about`; a new one for each `revision`. */
export function useTiles<P extends TilePath>(
  path: P,
  about: Omit<Query<P>, "level" | "tile">,
  revision: number,
): Tiles<P> {
  const last = useRef<Tiles<P> | null>(null);
  const key = JSON.stringify([path, about, revision]);
  const tiles = useMemo<Tiles<P>>(() => {
    const now = new TileStore(path, about);
    // The previous store may have been replaced while empty: then keep the one before it.
    const before = last.current?.now.isEmpty ? last.current.before : (last.current?.now ?? null);
    // Tiles of another axis would be at wrong positions.
    last.current = { now, before: before?.axis === now.axis ? before : null };
    return last.current;
  }, [key]);
  useEffect(() => {
    const stop = effect(() => {
      if (tiles.now.arrived.value > 0 && tiles.now.isComplete) tiles.before = null;
    });
    return () => {
      stop();
      tiles.now.close();
    };
  }, [tiles]);
  return tiles;
}
