// The card of the allocation that was chosen.

import { useEffect } from "preact/hooks";
import { Card } from "../../render/allocation_card";
import { useChosenCard } from "../../render/chosen_card";
import { Problem } from "../../render/notices";
import { choose, chosen, missed } from "./state";

export function ChosenCard() {
  const { value, error } = useChosenCard().value;
  useEffect(() => {
    chosen.value = value;
    return () => {
      chosen.value = null;
    };
  }, [value]);
  if (error) return <Problem error={error} />;
  if (!value)
    return (
      <p class="quiet hint">
        {missed.value ?? "Click the chart to see the allocation at that point."}
      </p>
    );
  return <Card card={value} onChoose={(id) => choose(id)} />;
}
