// Where in a picture over time a time lies, and which time lies where: straight between the knots of an axis.

export interface Knot {
  readonly seconds: number;
  readonly position: number;
}

/** Where a time lies. */
export function positionOf(knots: readonly Knot[], seconds: number): number {
  return between(knots, seconds, "seconds", "position");
}

/** The time that lies there. */
export function secondsAt(knots: readonly Knot[], position: number): number {
  return between(knots, position, "position", "seconds");
}

function between(
  knots: readonly Knot[],
  value: number,
  from: "seconds" | "position",
  to: "seconds" | "position",
): number {
  let low = 0;
  let high = knots.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((knots[middle] as Knot)[from] <= value) low = middle + 1;
    else high = middle;
  }
  // Beyond the ends it goes on as fast as before.
  const after = Math.min(Math.max(low, 1), knots.length - 1);
  const [one, other] = [knots[after - 1], knots[after]];
  if (!one || !other) return value;
  const length = other[from] - one[from];
  if (length <= 0) return one[to];
  return one[to] + ((value - one[from]) / length) * (other[to] - one[to]);
}
