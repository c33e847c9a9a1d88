// The ticks of an axis.

export interface Ticks {
  readonly step: number;
  readonly at: readonly number[];
}

const DECIMAL = [1, 2, 5, 10] as const;
const BINARY = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] as const;

/** Round times between `from` and `to`, at most `most`. */
export function timeTicks(from: number, to: number, most: number): Ticks {
  const length = to - from;
  if (!(length > 0) || most < 1) return { step: 1, at: [] };
  const rough = length / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * (DECIMAL.find((factor) => power * factor >= rough * (1 - 1e-9)) ?? 10);
  return { step, at: multiples(from, to, step) };
}

/** Round numbers of bytes from 0 to `highest`, at most `most` of them beside 0. */
export function byteTicks(highest: number, most: number): Ticks {
  if (!(highest > 0) || most < 1) return { step: 1, at: [0] };
  const rough = highest / most;
  let unit = 1;
  while (unit * 1024 <= rough) unit *= 1024;
  const step = unit * (BINARY.find((factor) => unit * factor >= rough) ?? 1024);
  return { step, at: multiples(0, highest, step) };
}

/** The multiples of `step` between two numbers, both included. */
export function multiples(from: number, to: number, step: number): number[] {
  const found: number[] = [];
  // Multiplied, not added: sums of 0.1 drift.
  for (
    let count = Math.ceil(from / step - 1e-9) + 0;
    count * step <= to + step * 1e-9;
    count += 1
  ) {
    found.push(count * step);
  }
  return found;
}
