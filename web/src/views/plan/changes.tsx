// The changes of the plan with what each costs, the code that makes them, and the command that runs with them.

import type { Plan, PlanChange } from "../../api/types.gen";
import { formatBytes } from "../../base/bytes";
import { CopyButton } from "../../render/copy_button";
import { costSentence } from "../../render/plan_words";

export function Changes({ found }: { found: Plan }) {
  if (found.changes.length === 0) return null;
  return (
    <section class="panel plan-part" aria-labelledby="plan-changes">
      <h3 id="plan-changes">The changes of the plan</h3>
      <ol class="plan-changes">
        {found.changes.map((change) => (
          <li key={change.change}>
            <p>
              <code>{change.change}</code> <span>{change.target}</span>
            </p>
            <p class="quiet">{alone(change)}</p>
          </li>
        ))}
      </ol>
      {found.patch && <Code title="Add this to the program" text={found.patch} />}
      {found.command && (
        <Code title="Or run it with these changes, without editing it" text={found.command} />
      )}
    </section>
  );
}

/** The effect of a single change. */
function alone(change: PlanChange): string {
  const saves = change.saves === null ? "" : `saves ${formatBytes(change.saves)} alone; `;
  return `${saves}${costSentence(change)}`;
}

function Code({ title, text }: { title: string; text: string }) {
  return (
    <div class="plan-code">
      <h3>
        {title} <CopyButton text={text} />
      </h3>
      {/* Lines may be wider than the page: it scrolls, also with the keys. */}
      <pre tabIndex={0}>{text}</pre>
    </div>
  );
}
