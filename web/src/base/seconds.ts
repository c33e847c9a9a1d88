// Times and durations as text.

/** A time of the recording, as in the terminal: `1.468 s`. */
export function formatSeconds(seconds: number): string {
  return `${seconds.toFixed(3)} s`;
}

/** A duration in a suitable unit: `12.3 ms`, `4.56 s`, `3 min 20 s`. */
export function formatDuration(seconds: number): string {
  const size = Math.abs(seconds);
  if (size < 1e-6) return "0 s";
  if (size < 1e-3) return `${three(seconds * 1e6)} µs`;
  if (size < 1) return `${three(seconds * 1e3)} ms`;
  if (size < 60) return `${three(seconds)} s`;
  const minutes = Math.floor(size / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(size - minutes * 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A tick of a time axis whose ticks are `step` apart: as many decimals as the step needs. */
export function formatTimeTick(seconds: number, step: number): string {
  const decimals = step >= 1 ? 0 : Math.min(9, Math.ceil(-Math.log10(step) - 1e-9));
  return `${seconds.toFixed(decimals)} s`;
}

function three(value: number): string {
  const size = Math.abs(value);
  return size < 10 ? value.toFixed(2) : size < 100 ? value.toFixed(1) : value.toFixed(0);
}
