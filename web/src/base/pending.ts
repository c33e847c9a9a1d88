// Counts pending work: requests without an answer, pictures that are not drawn yet.
//
// The page's root shows it as `data-idle`.

import { computed, signal } from "@preact/signals";

const count = signal(0);

/** True while no work is pending. */
export const idle = computed(() => count.value === 0);

/** Begins a piece of work; returns a function to call when it has ended, also after an error. */
export function begin(): () => void {
  let open = true;
  // Read without subscribing: an effect may begin and end work.
  count.value = count.peek() + 1;
  return () => {
    if (!open) return;
    open = false;
    count.value = count.peek() - 1;
  };
}

/** The same around a promise. */
export async function during<T>(work: Promise<T>): Promise<T> {
  const end = begin();
  try {
    return await work;
  } finally {
    end();
  }
}
