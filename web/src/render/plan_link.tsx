// The verdict of the recording's plan with a link to it; empty without a plan.

import { card } from "../model/recording";
import { useAnswer } from "../model/use_answer";
import { Link } from "./link";
import { verdict } from "./plan_words";

/** The plan of the chosen recording. */
export function usePlan() {
  return useAnswer(() => {
    const here = card.value;
    return here?.has_plan
      ? { path: "plan", query: { trace: here.id }, revision: here.revision }
      : null;
  });
}

/** Keeps its line before the answer arrives, so that nothing moves. */
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
