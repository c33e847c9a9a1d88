// Bytes as the terminal shows them: four digits, binary units.

const UNITS = ["KiB", "MiB", "GiB", "TiB", "PiB"] as const;

/** `13.54 GiB`, as the program prints it. */
export function formatBytes(bytes: number): string {
  if (bytes < 0) return `−${formatBytes(-bytes)}`;
  if (bytes < 1024) return `${Math.round(bytes)} B`;
  let value = bytes / 1024;
  let unit = 0;
  // 1023.95 would round to 1024.0, so it gets the next unit.
  while (value >= 1023.95 && unit + 1 < UNITS.length) {
    value /= 1024;
    unit += 1;
  }
  const decimals = value < 10 ? 3 : value < 100 ? 2 : 1;
  return `${value.toFixed(decimals)} ${UNITS[unit]}`;
}

/** `+13.54 GiB`, `−1.000 KiB` or `0 B`. */
export function formatChange(bytes: number): string {
  return bytes > 0 ? `+${formatBytes(bytes)}` : formatBytes(bytes);
}

/** A round number of bytes for an axis: `1.5 GiB`, without trailing zeros. */
export function formatTick(bytes: number): string {
  if (bytes === 0) return "0";
  let value = bytes;
  let unit = "B";
  for (const next of UNITS) {
    if (value < 1024) break;
    value /= 1024;
    unit = next;
  }
  return `${Number(value.toFixed(2))} ${unit}`;
}

/** `12.3 %` of a whole; `<0.1 %` for a small non-zero part; empty if the whole is 0. */
export function formatShare(part: number, whole: number): string {
  if (whole <= 0) return "";
  const percent = (100 * part) / whole;
  return part > 0 && percent < 0.05 ? "<0.1 %" : `${percent.toFixed(1)} %`;
}

/** `+12.3 %` or `−1.1 %`. */
export function formatPercentChange(percent: number): string {
  const sign = percent > 0 ? "+" : percent < 0 ? "−" : "";
  return `${sign}${Math.abs(percent).toFixed(1)} %`;
}

/** `1,234,567`. */
export function formatCount(count: number): string {
  return Math.round(count)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ",");
}

/** `1 allocation`, `2 allocations`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}
