// What to change so that the program fits: every try against the memory of the GPU, and the cheapest that fits.

import { useState } from "preact/hooks";
import type { Plan, PlanTry } from "../../api/types.gen";
import { card } from "../../model/recording";
import { Causes } from "../../render/causes";
import { ChangeText } from "../../render/change_text";
import { Answered } from "../../render/notices";
import { usePlan } from "../../render/plan_link";
import {
  costSentence,
  nextStepSentence,
  tryName,
  unchangedSentence,
  verdict,
} from "../../render/plan_words";
import type { View } from "../view";
import { ChangeNames } from "./change_names";
import { Changes } from "./changes";
import { Curve } from "./curve";
import "./plan.css";
import { Tries } from "./tries";

function PlanView() {
  const plan = usePlan();
  return <Answered asked={plan.value}>{(found) => <Shown found={found} />}</Answered>;
}

function Shown({ found }: { found: Plan }) {
  const [pointed, setPointed] = useState<PlanTry | null>(null);
  const point = { found, pointed, onPoint: setPointed };
  return (
    <div class="plan">
      <Head found={found} />
      <div class="plan-columns">
        <div>
          <Tries {...point} />
          {found.plan && <Filling found={found} />}
          <LeftOut found={found} />
        </div>
        <div>
          {found.tries.length > 1 && <Curve {...point} />}
          <Changes found={found} />
          {!found.plan && <Filling found={found} />}
        </div>
      </div>
    </div>
  );
}

function Head({ found }: { found: Plan }) {
  const { plan, unchanged, floor_try: least } = found;
  const hasChanges = plan !== null && plan.changes.length > 0;
  return (
    <section class="plan-head" aria-labelledby="plan-verdict">
      <h2 id="plan-verdict">
        <b aria-hidden="true" class={plan ? "fits" : "fails"}>
          {plan ? "✓" : "✗"}
        </b>{" "}
        {verdict(found)}
      </h2>
      {hasChanges && <p>It costs: {costSentence(plan)}.</p>}
      {plan && !found.is_proven && (
        <p class="fails">
          With the plan an allocation failed on the GPU itself, or there was no time to run it.
        </p>
      )}
      {!plan && least && least.changes.length > 0 && (
        <p>It needs the least with {tryName(least)}.</p>
      )}
      {found.next_steps.map((step) => (
        <p key={`${step.gpu} ${step.gpus}`}>{nextStepSentence(step)}</p>
      ))}
      {unchanged && hasChanges && (
        <p class="quiet">{unchangedSentence(unchanged)} The other views show this run.</p>
      )}
    </section>
  );
}

/** What fills the peak, and without a plan also what remains with the least memory. */
function Filling({ found }: { found: Plan }) {
  return (
    <>
      {found.causes.length > 0 && (
        <section class="panel plan-part" aria-labelledby="plan-causes">
          <h3 id="plan-causes">What fills the peak without changes</h3>
          <Causes causes={found.causes} />
        </section>
      )}
      {!found.plan && found.floor_causes.length > 0 && (
        <section class="panel plan-part" aria-labelledby="plan-floor">
          <h3 id="plan-floor">What remains with the least memory</h3>
          <Causes causes={found.floor_causes} />
        </section>
      )}
    </>
  );
}

function LeftOut({ found }: { found: Plan }) {
  if (found.left_out.length + found.not_tried.length === 0) return null;
  return (
    <section class="panel plan-part" aria-labelledby="plan-left-out">
      <h3 id="plan-left-out">Left out</h3>
      <dl class="figures">
        {found.left_out.map((one) => (
          <div key={one.changes}>
            <dt>
              <ChangeNames changes={one.changes.split(" + ")} />
            </dt>
            <dd>
              <ChangeText text={one.reason} />
            </dd>
          </div>
        ))}
        {found.not_tried.map((changes) => (
          <div key={changes}>
            <dt>
              <ChangeNames changes={changes.split(" + ")} />
            </dt>
            <dd>there was no time to try it</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

export const planView: View = {
  name: "plan",
  title: "Plan",
  key: "P",
  hint: "what to change so that the program fits",
  component: PlanView,
  isThere: () => card.value?.has_plan === true,
};
