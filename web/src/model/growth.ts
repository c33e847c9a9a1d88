// Follows a growing recording: requests the list of recordings again, and moves a window at the end
// along with it.

import { effect, signal } from "@preact/signals";
import { go, range, secondsField } from "./address";
import { card, refresh, source, traces } from "./recording";

/** Whether the page follows a growing file. */
export const isFollowing = signal(false);

/** Whether the server of a growing file has stopped answering. */
export const isLost = signal(false);

/** The shortest time between two requests of the list. */
const LEAST_MILLIS = 250;
/** The number of remembered ends: a window may be at an end from before the last growth. */
const ENDS = 3;

const ends: number[] = [];
let sticks = false;

export function followGrowth(): void {
  if (!traces.peek()?.follows || source().isStored) return;
  isFollowing.value = true;
  remember();
  effect(() => {
    const window = range.value;
    if (window) sticks = isAtEnd(window.to, ends);
  });
  let isPlanned = false;
  const soon = () => {
    if (isPlanned) return;
    isPlanned = true;
    setTimeout(() => {
      isPlanned = false;
      void grow();
    }, LEAST_MILLIS);
  };
  source().follow({
    grown: soon,
    ended: () => {
      isFollowing.value = false;
      soon();
    },
    connected: (isConnected) => {
      isLost.value = !isConnected;
    },
  });
}

/** Whether `to` is one of the last ends of the recording. */
export function isAtEnd(to: number, ends: readonly number[]): boolean {
  return ends.some((end) => Math.abs(to - end) <= end * 0.001);
}

async function grow(): Promise<void> {
  const before = card.peek()?.id;
  await refresh();
  const window = range.peek();
  const seconds = remember();
  if (!sticks || !window || card.peek()?.id !== before) return;
  const moved = seconds - window.to;
  if (moved <= 0) return;
  go({ from: secondsField(window.from + moved), to: secondsField(seconds) }, { replaces: true });
}

function remember(): number {
  const seconds = card.peek()?.summary.seconds ?? 0;
  ends.push(seconds);
  if (ends.length > ENDS) ends.shift();
  return seconds;
}
