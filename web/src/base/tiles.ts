// Selects the tiles of a window. Level L divides an axis into 2^L equal tiles; windows are in
// positions.

export interface TileName {
  readonly level: number;
  readonly tile: number;
}

/**
 * The finest level whose columns are no narrower than a pixel: a picture that is only ever widened shows every
 * column, so it shows every peak.
 */
export function levelFor(
  window: { readonly from: number; readonly to: number },
  length: number,
  pixels: number,
  columns: number,
  deepest: number,
): number {
  const span = window.to - window.from;
  if (!(span > 0) || !(length > 0) || pixels < 1) return 0;
  const level = Math.floor(Math.log2((length * pixels) / (span * columns)) + 1e-9);
  return Math.min(deepest, Math.max(0, level));
}

/** The tiles of a level that a window touches, from left to right. */
export function tilesIn(level: number, length: number, from: number, to: number): TileName[] {
  const count = 2 ** level;
  const first = Math.max(0, Math.floor((from / length) * count));
  const last = Math.min(count - 1, Math.ceil((to / length) * count) - 1);
  const found: TileName[] = [];
  for (let tile = first; tile <= last; tile += 1) found.push({ level, tile });
  return found;
}

/** The tile of the next coarser level that contains this one. */
export function parent(name: TileName): TileName | null {
  return name.level === 0 ? null : { level: name.level - 1, tile: Math.floor(name.tile / 2) };
}

/**
 * Tiles in the order of requests: the whole, then the visible ones from the middle outwards, then
 * their neighbours.
 */
export function wantedTiles(level: number, length: number, from: number, to: number): TileName[] {
  const seen = tilesIn(level, length, from, to);
  const middle = seen[seen.length >> 1]?.tile ?? 0;
  const fromMiddle = [...seen].sort(
    (one, other) => Math.abs(one.tile - middle) - Math.abs(other.tile - middle),
  );
  const wanted = [{ level: 0, tile: 0 }, ...fromMiddle];
  const first = seen[0];
  const last = seen[seen.length - 1];
  if (first && first.tile > 0) wanted.push({ level, tile: first.tile - 1 });
  if (last && last.tile + 1 < 2 ** level) wanted.push({ level, tile: last.tile + 1 });
  if (level > 0) wanted.push(...tilesIn(level - 1, length, from, to));
  const names = new Set<string>();
  return wanted.filter((name) => {
    const text = `${name.level}/${name.tile}`;
    if (names.has(text)) return false;
    names.add(text);
    return true;
  });
}
