// The state of the page that its address contains: view, recording, device, grouping, window and cursor. So a link
// opens the same picture, and the browser's back button works.

import { computed, type ReadonlySignal, signal } from "@preact/signals";
import type { At } from "../api/questions";
import { type Fields, formatHash, parseHash } from "../base/hash";
import { begin } from "../base/pending";

/** The order of fields in the address; others follow. */
const ORDER = ["view", "trace", "device", "by", "from", "to", "at"];

const fields = signal<Fields>({});

/** One field of the address; `fallback` while it is missing. Views may have fields of their own. */
export function field(name: string, fallback = ""): ReadonlySignal<string> {
  return computed(() => fields.value[name] ?? fallback);
}

/** A field that is a number; null while it is missing or not a number. */
export function numberField(name: string): ReadonlySignal<number | null> {
  return computed(() => finite(fields.value[name]));
}

/** The view, recording and device of the address; empty or null without a field. */
export const viewName = field("view");
export const traceField = numberField("trace");
export const deviceField = field("device");

/** How the timeline is stacked. */
export const grouping = field("by", "category");

/** The window in seconds; null means the whole recording. */
export const range = computed<{ from: number; to: number } | null>(() => {
  const from = finite(fields.value.from);
  const to = finite(fields.value.to);
  return from !== null && to !== null && to > from ? { from, to } : null;
});

/** The time in the address. */
export const namedMoment = computed<At | null>(() => {
  const text = fields.value.at;
  if (text === "peak" || text === "end" || text === "oom") return text;
  return finite(text);
});

/** The chosen time of the views. */
export const cursor = computed<At>(() => namedMoment.value ?? "peak");

export type Changes = Readonly<Record<string, string | number | null | undefined>>;

/** The address after some changes, for a link. A null or empty value removes the field. */
export function hashAfter(changes: Changes): string {
  return formatHash(changed(changes));
}

/**
 * Changes the address. Each call adds a step to the browser's history, unless it `replaces` the
 * current one (for continuous changes: windows, cursors, searches).
 */
export function go(changes: Changes, how: { replaces?: boolean } = {}): void {
  const next = changed(changes);
  fields.value = next;
  if (how.replaces) {
    replaceSoon();
    return;
  }
  replaceNow();
  const hash = formatHash(next);
  if (HAS_ADDRESS && hash !== location.hash) history.pushState(null, "", hash);
}

/** In a notebook's frame (`srcdoc`) browsers refuse to change the page's address. */
const HAS_ADDRESS = location.protocol !== "about:";

/** Browsers limit how often the address may change. */
const REPLACE_MILLIS = 150;
let planned: { timer: ReturnType<typeof setTimeout>; end: () => void; to: Fields } | null = null;

function replaceSoon(): void {
  if (planned) {
    planned.to = fields.peek();
    return;
  }
  planned = { timer: setTimeout(replaceNow, REPLACE_MILLIS), end: begin(), to: fields.peek() };
}

/** Writes the pending address. */
function replaceNow(): void {
  if (!planned) return;
  const { timer, end, to } = planned;
  planned = null;
  clearTimeout(timer);
  end();
  if (HAS_ADDRESS) history.replaceState(null, "", formatHash(to));
}

/** Reads the address now and at each change. */
export function followAddress(): void {
  const read = () => {
    planned?.end();
    clearTimeout(planned?.timer);
    planned = null;
    fields.value = parseHash(location.hash);
  };
  read();
  window.addEventListener("popstate", read);
  window.addEventListener("hashchange", read);
}

/** Seconds for the address, rounded to microseconds. */
export function secondsField(seconds: number): string {
  return String(Number(seconds.toFixed(6)));
}

function changed(changes: Changes): Fields {
  const all: Record<string, string> = { ...fields.peek() };
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") delete all[name];
    else all[name] = String(value);
  }
  const known = ORDER.filter((name) => name in all);
  const others = Object.keys(all).filter((name) => !ORDER.includes(name));
  return Object.fromEntries([...known, ...others].map((name) => [name, all[name] ?? ""]));
}

function finite(text: string | undefined): number | null {
  if (text === undefined || text === "") return null;
  const value = Number(text);
  return Number.isFinite(value) ? value : null;
}
