// A recording that is still growing: the list of recordings is asked for again, and a window that stood at the end
// goes on standing there.

import { signal } from "@preact/signals";
import { go, range, secondsField } from "./place";
import { card, refresh, source, traces } from "./recording";

/** Whether the page listens to a growing file. */
export const isFollowing = signal(false);

/** At most so often is the list asked for again. */
const LEAST_MILLIS = 250;

export function followGrowth(): void {
  if (!traces.peek()?.follows || source().isStored) return;
  isFollowing.value = true;
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
  });
}

async function grow(): Promise<void> {
  const before = card.peek();
  await refresh();
  const after = card.peek();
  const window = range.peek();
  if (!before || !after || !window || before.id !== after.id) return;
  const moved = after.summary.seconds - before.summary.seconds;
  const stoodAtEnd = window.to >= before.summary.seconds * 0.999;
  if (!stoodAtEnd || moved === 0) return;
  go(
    { from: secondsField(window.from + moved), to: secondsField(window.to + moved) },
    { replaces: true },
  );
}
