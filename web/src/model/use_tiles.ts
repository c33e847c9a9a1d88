// A store of tiles that follows what is looked at. Until a new one has all that is wanted, the one before
// it is shown instead.

import { effect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Query } from "../api/questions";
import { type TilePath, TileStore } from "./tile_store";

export interface Tiles<P extends TilePath> {
  readonly now: TileStore<P>;
  before: TileStore<P> | null;
}

/** The store of what `about` says; another one when `revision` is another. */
export function useTiles<P extends TilePath>(
  path: P,
  about: Omit<Query<P>, "level" | "tile">,
  revision: number,
): Tiles<P> {
  const last = useRef<Tiles<P> | null>(null);
  const key = JSON.stringify([path, about, revision]);
  const tiles = useMemo<Tiles<P>>(() => {
    const now = new TileStore(path, about);
    // The one before may have been replaced before anything came: then the one before that is still shown.
    const before = last.current?.now.isEmpty ? last.current.before : (last.current?.now ?? null);
    // On another axis it would lie elsewhere.
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
