// What the plan of the recording says, and the way to it; nothing where the recording has none.

import { card } from "../model/recording";
import { useAnswer } from "../model/use_answer";
import { Link } from "./link";
import { verdict } from "./plan_words";

/** The question for the plan of the recording that is looked at. */
export function usePlan() {
  return useAnswer(() => {
    const here = card.value;
    return here?.has_plan
      ? { path: "plan", query: { trace: here.id }, revision: here.revision }
      : null;
  });
}

/** It has its line before the answer comes: nothing moves. */
export function PlanLink() {
  const plan = usePlan();
  if (!card.value?.has_plan) return null;
  const found = plan.value.value;
  return (
    <p class="plan-link">
      <Link to={{ view: "plan" }}>Plan</Link>: {found ? verdict(found) : "reading…"}
    </p>
  );
}
