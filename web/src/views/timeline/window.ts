// The part of the recording that the timeline shows. While it moves under the hand it lives here; where it comes to
// rest it goes into the address.

import { computed, effect, signal } from "@preact/signals";
import { begin } from "../../base/pending";
import { go, range, secondsField } from "../../model/address";
import { type Subject, subject } from "../../model/recording";
import type { Window } from "../../render/blit";
import { bandAt } from "./bands";

/** The finest that can be looked at: events have microseconds. */
const LEAST_SECONDS = 4e-6;
/** After so long without a move the address is written. */
const REST_MILLIS = 180;
/** A step that is longer than this part of a recording is not shown alone. */
const MOST_OF_ALL = 0.9;

const moving = signal<Window | null>(null);

/** What is shown. */
export const shown = computed<Window>(() => {
  const seconds = subject.value?.seconds ?? 0;
  const wanted = moving.value ?? range.value;
  return wanted ? inside(wanted, seconds) : { from: 0, to: seconds || 1 };
});

export const isWhole = computed(() => {
  const seconds = subject.value?.seconds ?? 0;
  return shown.value.to - shown.value.from >= seconds * 0.9999;
});

/** Recordings and devices whose window was chosen already: the next visit finds what the last one left. */
const opened = new Set<string>();

/** Opens on the step of a moment, once, where the address has no window: the rest of a recording is often idle. */
export function openOnStep(about: Subject, steps: readonly Window[], at: number | null): void {
  const key = `${about.trace} ${about.device}`;
  if (opened.has(key)) return;
  opened.add(key);
  const step = at === null ? null : stepAround(steps, at, about.seconds);
  if (!step || range.peek()) return;
  go({ from: secondsField(step.from), to: secondsField(step.to) }, { replaces: true });
}

/** The step that a moment lies in, or what comes after the last one that ended; null where that is nearly all. */
export function stepAround(steps: readonly Window[], at: number, seconds: number): Window | null {
  const last = steps.at(-1);
  if (!last) return null;
  const step = at > last.to ? { from: last.to, to: seconds } : bandAt(steps, at);
  return step && step.to > step.from && step.to - step.from < seconds * MOST_OF_ALL ? step : null;
}

/** The address that is still to be written. */
let rest: { timer: ReturnType<typeof setTimeout>; end: () => void } | null = null;

function cancelRest(): void {
  clearTimeout(rest?.timer);
  rest?.end();
  rest = null;
}

// A link, the back button or a growing file may set the window too: then nothing moves under the hand any more.
effect(() => {
  void range.value;
  cancelRest();
  moving.value = null;
});

/** Moves the window; the address follows when it rests. */
export function move(window: Window): void {
  moving.value = inside(window, subject.peek()?.seconds ?? 0);
  clearTimeout(rest?.timer);
  rest = { timer: setTimeout(() => settle(true), REST_MILLIS), end: rest?.end ?? begin() };
}

/** Goes to a window at once: a step that the back button undoes. */
export function goTo(window: Window | null): void {
  moving.value = window && inside(window, subject.peek()?.seconds ?? 0);
  settle(false);
}

/** Widens (`factor` above 1) or narrows the window around a moment. */
export function zoom(factor: number, around: number): void {
  const { from, to } = shown.peek();
  move({ from: around - (around - from) * factor, to: around + (to - around) * factor });
}

/** Moves the window by a share of its length. */
export function pan(share: number): void {
  const { from, to } = shown.peek();
  const by = (to - from) * share;
  move({ from: from + by, to: to + by });
}

/** Moves the window to the beginning or the end of the recording. */
export function toEdge(edge: "start" | "end"): void {
  const { from, to } = shown.peek();
  const by = edge === "start" ? -from : (subject.peek()?.seconds ?? to) - to;
  move({ from: from + by, to: to + by });
}

function settle(replaces: boolean): void {
  const seconds = subject.peek()?.seconds ?? 0;
  const window = moving.peek();
  const isAll = !window || window.to - window.from >= seconds * 0.9999;
  const next = isAll
    ? { from: null, to: null }
    : { from: secondsField(window.from), to: secondsField(window.to) };
  go(next, { replaces });
  cancelRest();
  moving.value = null;
}

/** The nearest window that lies in the recording and is not too short. */
export function inside(window: Window, seconds: number): Window {
  const length = Math.min(seconds, Math.max(LEAST_SECONDS, window.to - window.from));
  const middle = (window.from + window.to) / 2;
  const from = Math.min(
    seconds - length,
    Math.max(0, window.to - window.from === length ? window.from : middle - length / 2),
  );
  return { from, to: from + length };
}
