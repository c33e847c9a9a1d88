// Whether anything is still under way: questions that are asked, pictures that are not drawn yet.
//
// The page's root shows it as `data-idle`.

import { computed, signal } from "@preact/signals";

const count = signal(0);

/** True while nothing is under way. */
export const idle = computed(() => count.value === 0);

/** Says that something began; call what is returned once it has ended, however it ended. */
export function begin(): () => void {
  let open = true;
  // Read without subscribing: an effect may begin and end things.
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
