// Changes as bars to both sides of one line, all to one scale.

export interface ChangeBar {
  /** From the left edge, and how wide: shares of the whole width. */
  readonly left: number;
  readonly width: number;
}

export interface ChangeBars {
  /** Where nothing changed. */
  readonly zero: number;
  readonly bars: readonly ChangeBar[];
}

/** The line is placed so that the largest growth and the largest shrinkage both just fit. */
export function changeBars(changes: readonly number[]): ChangeBars {
  const grown = changes.reduce((most, change) => Math.max(most, change), 0);
  const shrunk = changes.reduce((most, change) => Math.max(most, -change), 0);
  const whole = grown + shrunk;
  if (whole === 0) return { zero: 0, bars: changes.map(() => ({ left: 0, width: 0 })) };
  const zero = shrunk / whole;
  const bars = changes.map((change) => {
    const width = Math.abs(change) / whole;
    return { left: change < 0 ? zero - width : zero, width };
  });
  return { zero, bars };
}
