// The card of the allocation in the address, or a hint without one.

import type { ComponentChildren } from "preact";
import { go, numberField } from "../model/address";
import { subject } from "../model/recording";
import { useAnswer } from "../model/use_answer";
import { Card } from "./allocation_card";
import { Problem } from "./notices";
import { useKeys } from "./use_keys";

/** The allocation whose card is open. */
export const chosenId = numberField("allocation");

export function choose(id: number | null): void {
  go({ allocation: id }, { replaces: true });
}

/** The answer with the chosen allocation. */
export function useChosenCard() {
  return useAnswer(() => {
    const about = subject.value;
    const id = chosenId.value;
    return about && id !== null
      ? { path: "allocation", query: { trace: about.trace, id }, revision: about.revision }
      : null;
  });
}

export function ChosenCard({ children }: { children?: ComponentChildren }) {
  const answer = useChosenCard();
  useKeys("Card", [{ keys: ["Escape"], hint: "Close the card", run: () => choose(null) }]);
  const { value, error } = answer.value;
  if (error) return <Problem error={error} />;
  if (!value || chosenId.value === null) return <>{children}</>;
  return <Card card={value} onChoose={choose} />;
}
