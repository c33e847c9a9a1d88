// The window: the part of the recording that the timeline shows. While it moves it is stored here;
// when it rests it goes into the address. It is an interval of time, so that it survives a change
// of the axis; it moves and zooms along the axis.

import { computed, effect, signal } from "@preact/signals";
import { positionOf, positionsOf, timesBetween } from "../../base/axis";
import { begin } from "../../base/pending";
import { go, range, secondsField } from "../../model/address";
import { subject } from "../../model/recording";
import type { Window } from "../../render/blit";
import { axis } from "./state";

/** The smallest window, in positions on the axis: events have a resolution of microseconds. */
const LEAST = { time: 4e-6, events: 4, steps: 1e-3 } as const;
/** The time without a move after which the address is written. */
const REST_MILLIS = 180;

const moving = signal<Window | null>(null);

/** The window in seconds. */
export const shown = computed<Window>(() => {
  const seconds = subject.value?.seconds ?? 0;
  const wanted = moving.value ?? range.value;
  return wanted ? nearest(wanted) : { from: 0, to: seconds || 1 };
});

/** The same in positions on the axis. */
export const shownAlong = computed<Window>(() => positionsOf(axis.value.knots, shown.value));

export const isWhole = computed(() => isAll(shownAlong.value));

function isAll({ from, to }: Window): boolean {
  return to - from >= axis.value.length * 0.9999;
}

/** The pending write of the address. */
let rest: { timer: ReturnType<typeof setTimeout>; end: () => void } | null = null;

function cancelRest(): void {
  clearTimeout(rest?.timer);
  rest?.end();
  rest = null;
}

// A link, the back button or a growing file may also set the window: end the user's move.
effect(() => {
  void range.value;
  cancelRest();
  moving.value = null;
});

/** Moves the window; the address follows when it rests. */
export function move(window: Window): void {
  moving.value = nearest(window);
  clearTimeout(rest?.timer);
  rest = { timer: setTimeout(() => settle(true), REST_MILLIS), end: rest?.end ?? begin() };
}

/** Sets the window at once, as a step of the browser's history. */
export function goTo(window: Window | null): void {
  moving.value = window && nearest(window);
  settle(false);
}

/** Moves the window to other positions on the axis. */
export function moveAlong(window: Window): void {
  const { by, knots, length } = axis.peek();
  move(timesBetween(knots, inside(window, length, LEAST[by])));
}

/** Widens (`factor` above 1) or narrows the window around a moment. */
export function zoom(factor: number, seconds: number): void {
  const { from, to } = shownAlong.peek();
  const around = positionOf(axis.peek().knots, seconds);
  moveAlong({ from: around - (around - from) * factor, to: around + (to - around) * factor });
}

/** Moves the window by a share of its length. */
export function pan(share: number): void {
  const { from, to } = shownAlong.peek();
  moveBy((to - from) * share);
}

/** Moves the window to the beginning or the end of the recording. */
export function toEdge(edge: "start" | "end"): void {
  const { from, to } = shownAlong.peek();
  moveBy(edge === "start" ? -from : axis.peek().length - to);
}

function moveBy(by: number): void {
  const { from, to } = shownAlong.peek();
  moveAlong({ from: from + by, to: to + by });
}

function settle(replaces: boolean): void {
  const window = moving.peek();
  const next =
    !window || isAll(positionsOf(axis.peek().knots, window))
      ? { from: null, to: null }
      : { from: secondsField(window.from), to: secondsField(window.to) };
  go(next, { replaces });
  cancelRest();
  moving.value = null;
}

/** The nearest window in seconds that lies in the recording and is not too short. */
function nearest(window: Window): Window {
  return inside(window, subject.value?.seconds ?? 0, LEAST.time);
}

/** The nearest window between 0 and `end` that is no shorter than `least`. */
export function inside(window: Window, end: number, least: number): Window {
  const length = Math.min(end, Math.max(least, window.to - window.from));
  const middle = (window.from + window.to) / 2;
  const from = Math.min(
    end - length,
    Math.max(0, window.to - window.from === length ? window.from : middle - length / 2),
  );
  return { from, to: from + length };
}
