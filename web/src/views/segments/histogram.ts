// A histogram of free blocks: their number and bytes in each doubling of size.

export interface Bin {
  /** The smallest size of the bin; the next power of two is exclusive. */
  readonly from: number;
  readonly count: number;
  readonly bytes: number;
  /** The bytes of unusable blocks, which are too small for the largest request. */
  readonly tooSmall: number;
}

/**
 * Bins without gaps from the smallest to the largest block; empty without blocks. `unusable` is the
 * number of bytes in unusable blocks.
 */
export function histogram(sizes: readonly number[], unusable: number): Bin[] {
  const exponents = sizes.filter((size) => size > 0).map((size) => Math.floor(Math.log2(size)));
  if (exponents.length === 0) return [];
  const least = exponents.reduce((one, other) => Math.min(one, other));
  const most = exponents.reduce((one, other) => Math.max(one, other));
  const bins = Array.from({ length: most - least + 1 }, (_, index) => ({
    from: 2 ** (least + index),
    count: 0,
    bytes: 0,
    tooSmall: 0,
  }));
  const enough = usableFrom(sizes, unusable);
  for (const size of sizes) {
    const bin = size > 0 ? bins[Math.floor(Math.log2(size)) - least] : undefined;
    if (!bin) continue;
    bin.count += 1;
    bin.bytes += size;
    if (size < enough) bin.tooSmall += size;
  }
  return bins;
}

/** The size of the smallest usable block, given the sum of all smaller ones. */
export function usableFrom(sizes: readonly number[], unusable: number): number {
  let sum = 0;
  for (const size of [...sizes].sort((one, other) => one - other)) {
    if (sum >= unusable) return size;
    sum += size;
  }
  return Number.POSITIVE_INFINITY;
}
