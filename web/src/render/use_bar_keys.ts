// Keys that choose the next or previous bar and open the chosen one.

import { useKeys } from "./use_keys";

export interface Bars {
  /** The name of a bar: `step`, `rank`. */
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
      hint: `Next ${what}`,
      run: () => onChoose(Math.min(count - 1, (chosen ?? -1) + 1)),
    },
    {
      keys: ["p", "ArrowLeft"],
      hint: `Previous ${what}`,
      run: () => onChoose(Math.max(0, (chosen ?? count) - 1)),
    },
    {
      keys: ["Enter"],
      hint: `Show the chosen ${what} in the timeline`,
      run: () => onOpen(chosen),
    },
  ]);
}
