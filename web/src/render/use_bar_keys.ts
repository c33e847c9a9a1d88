// From bar to bar with the keys, and into the one that is chosen.

import { useKeys } from "./use_keys";

export interface Bars {
  /** What a bar is: `step`, `rank`. */
  readonly what: string;
  readonly count: number;
  readonly chosen: number | null;
  readonly onChoose: (at: number) => void;
  readonly onOpen: (at: number | null) => void;
}

export function useBarKeys(title: string, { what, count, chosen, onChoose, onOpen }: Bars): void {
  useKeys(title, [
    {
      keys: ["n", "ArrowRight"],
      says: `Next ${what}`,
      run: () => onChoose(Math.min(count - 1, (chosen ?? -1) + 1)),
    },
    {
      keys: ["p", "ArrowLeft"],
      says: `Previous ${what}`,
      run: () => onChoose(Math.max(0, (chosen ?? count) - 1)),
    },
    {
      keys: ["Enter"],
      says: `Show the chosen ${what} in the timeline`,
      run: () => onOpen(chosen),
    },
  ]);
}
