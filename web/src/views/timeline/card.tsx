// The card of the allocation that was chosen.

import { useEffect } from "preact/hooks";
import { subject } from "../../model/recording";
import { useAnswer } from "../../model/use_answer";
import { Card } from "../../render/allocation_card";
import { Problem } from "../../render/notices";
import { choose, chosen, chosenId, missed } from "./state";

export function ChosenCard() {
  const answer = useAnswer(() => {
    const about = subject.value;
    const id = chosenId.value;
    return about && id !== null
      ? { path: "allocation", query: { trace: about.trace, id }, revision: about.revision }
      : null;
  });
  const { value, error } = answer.value;
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
