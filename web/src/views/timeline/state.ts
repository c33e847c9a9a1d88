// The state of the timeline: what is switched on, pointed at and chosen.

import { computed, signal } from "@preact/signals";
import type { AllocationCard, Bands, Timeline } from "../../api/types.gen";
import { axisUntil, plainAxis, type TimeAxis } from "../../base/axis";
import {
  type Changes,
  cursor,
  field,
  go,
  grouping,
  numberField,
  secondsField,
} from "../../model/address";
import { subject } from "../../model/recording";
import type { Failure } from "./failure";
import type { Walk } from "./walk";

/** The shown timeline and bands; null before they arrive. */
export const timeline = signal<Timeline | null>(null);
export const bands = signal<Bands | null>(null);

/** The axis of the picture. */
export const axis = computed<TimeAxis>(() => {
  const seconds = subject.value?.seconds ?? 0;
  const known = timeline.value;
  return known ? axisUntil(known.axis, seconds) : plainAxis(seconds);
});

/** The allocation whose card is open. */
export const chosenId = numberField("allocation");
export const chosen = signal<AllocationCard | null>(null);

/** The mode of the picture: stacked groups, or a ribbon for each allocation. */
const mode = field("mode", "stack");
export const isRibbons = computed(() => mode.value === "allocations");
/** The possible groupings of the stack. */
export const STACKED = ["category", "module", "phase", "line"] as const;
/** Other views have other groupings. */
export const stackedBy = computed(() => {
  const isKnown = (STACKED as readonly string[]).includes(grouping.value);
  return isRibbons.value || !isKnown ? "category" : grouping.value;
});

export function setMode(next: "stack" | "allocations"): void {
  go({ mode: next === "stack" ? null : next, off: null });
}

/** Hidden groups, by name; `off` in the address. */
const off = field("off");
export const hidden = computed<ReadonlySet<string>>(
  () => new Set(off.value.split("\n").filter(Boolean)),
);

export function toggleGroup(name: string): void {
  const next = new Set(hidden.peek());
  if (!next.delete(name)) next.add(name);
  go({ off: [...next].join("\n") });
}

/** Shows one group alone, or all again if it is alone already. */
export function onlyGroup(name: string): void {
  const others = (timeline.peek()?.groups ?? [])
    .map((group) => group.name)
    .filter((other) => other !== name);
  const isAlone = others.every((other) => hidden.peek().has(other));
  go({ off: isAlone ? null : others.join("\n") });
}

/** The failed allocation of the device; null if none failed. */
export const failure = signal<Failure | null>(null);

export type LineName = (typeof LINE_NAMES)[number];

const LINE_NAMES = ["allocated", "active", "reserved", "capacity", "limit"] as const;
const USUAL_LINES = "allocated,reserved,limit";

/** Lines that are switched on; `lines` in the address. */
const linesField = field("lines", USUAL_LINES);
export const lines = computed<Readonly<Record<LineName, boolean>>>(() => {
  const on = linesField.value.split(",");
  const pairs = LINE_NAMES.map((name) => [name, on.includes(name)]);
  return Object.fromEntries(pairs) as Record<LineName, boolean>;
});

export function toggleLine(name: LineName): void {
  const on = LINE_NAMES.filter((one) => lines.peek()[one] !== (one === name)).join(",");
  go({ lines: on === USUAL_LINES ? null : on || "none" });
}

/** The time and height of the pointer; null outside the picture. */
export const pointed = signal<{ readonly seconds: number; readonly bytes: number } | null>(null);
/** A range that is being drawn with the pointer, to select or to zoom. */
export const brushed = signal<{ readonly from: number; readonly to: number } | null>(null);

/** The selected range in seconds, or null; `sel` in the address. */
const selection = field("sel");
export const selected = computed<{ readonly from: number; readonly to: number } | null>(() => {
  const [from, to] = selection.value.split(",").map(Number);
  return from !== undefined && to !== undefined && from < to ? { from, to } : null;
});

export function select(range: { readonly from: number; readonly to: number } | null): void {
  go({ sel: range && `${secondsField(range.from)},${secondsField(range.to)}` });
}

/**
 * Moves one end of the selection to the cursor; the other end stays, or is the edge of the window.
 */
export function selectFromCursor(edge: "from" | "to", shown: { from: number; to: number }): void {
  const at = cursorSeconds.peek();
  if (at === null) return;
  const { from, to } = selected.peek() ?? shown;
  const [other, low, high] = edge === "from" ? [to, at, to] : [from, from, at];
  if (at !== other) select({ from: Math.min(low, high), to: Math.max(low, high) });
}

/** The cursor's time in seconds. */
export const cursorSeconds = computed<number | null>(() => {
  const at = cursor.value;
  if (typeof at === "number") return at;
  if (at === "end") return subject.value?.seconds ?? null;
  if (at === "oom")
    return bands.value?.markers.findLast((marker) => marker.kind === "oom")?.seconds ?? null;
  return timeline.value?.peak.seconds ?? null;
});

/** Whether the height fits the window instead of the whole recording. */
const fit = field("fit");
export const fits = computed(() => fit.value === "1");
export function toggleFit(): void {
  go({ fit: fits.peek() ? null : 1 });
}
/** The most bytes in the window, once it rests. */
export const highestInWindow = signal<number | null>(null);

/** The bytes at the upper edge of the picture. */
export const highest = computed<number>(() => {
  const known = timeline.value;
  if (!known) return 1;
  if (fits.value && highestInWindow.value !== null)
    return Math.max(1, highestInWindow.value) * 1.05;
  const on = lines.value;
  const peaks = [known.peak.allocated];
  if (on.active) peaks.push(known.peak.active ?? 0);
  if (on.reserved && !isRibbons.value) peaks.push(reservedPeak.value ?? 0);
  if (on.capacity) peaks.push(known.total ?? 0);
  if (on.limit && failure.value) peaks.push(failure.value.to, failure.value.limit ?? 0);
  return Math.max(1, ...peaks) * 1.05;
});

/** The peak of reserved bytes, from the list of recordings. */
export const reservedPeak = signal<number | null>(null);

/** The allocation chosen by the arrows. */
export const walked = signal<Walk | null>(null);

/** Why the last click found no allocation, if that is not obvious. */
export const missed = signal<string | null>(null);

export function choose(id: number | null, changes: Changes = {}): void {
  go({ ...changes, allocation: id }, { replaces: true });
}
