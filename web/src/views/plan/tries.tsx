// The list of tries: needed memory as a bar against that of the GPU, and the cost.

import type { Plan, PlanTry } from "../../api/types.gen";
import { formatBytes } from "../../base/bytes";
import { fitWords, formatMultiple, tryName } from "../../render/plan_words";
import { ChangeNames } from "./change_names";
import { firstTry, isSameTry, orderedTries } from "./order";

export interface TriesProps {
  readonly found: Plan;
  /** The try under the pointer or chosen by the keys. */
  readonly pointed: PlanTry | null;
  readonly onPoint: (tried: PlanTry | null) => void;
}

export function Tries({ found, pointed, onPoint }: TriesProps) {
  const rows = orderedTries(found);
  const widest = 1.02 * Math.max(1, found.capacity, ...rows.map((tried) => tried.needed));
  return (
    <section class="panel plan-part" aria-labelledby="plan-tries">
      <h3 id="plan-tries">What was tried, and the memory that it needs</h3>
      <div class="plan-table">
        <table>
          <caption class="unseen">What was tried</caption>
          <thead>
            <tr>
              <th scope="col">Changes</th>
              <th scope="col" class="against-limit">
                GPU: {formatBytes(found.capacity)}
              </th>
              <th scope="col" class="number">
                Needs
              </th>
              <th scope="col">Fits</th>
              <th scope="col" class="number" title="The estimated time of a step">
                Time
              </th>
              <th scope="col">Results</th>
            </tr>
          </thead>
          <tbody onMouseLeave={() => onPoint(null)}>
            {rows.map((tried) => (
              <Line
                key={tryName(tried)}
                tried={tried}
                found={found}
                widest={widest}
                isPointed={isSameTry(tried, pointed)}
                onPoint={onPoint}
              />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

interface LineProps {
  readonly tried: PlanTry;
  readonly found: Plan;
  readonly widest: number;
  readonly isPointed: boolean;
  readonly onPoint: (tried: PlanTry) => void;
}

function Line({ tried, found, widest, isPointed, onPoint }: LineProps) {
  const isPlan = isSameTry(tried, found.plan);
  const percent = (bytes: number) => `${(100 * bytes) / widest}%`;
  const within = Math.min(tried.needed, found.capacity);
  const fit = fitWords(tried, found.capacity);
  const kinds = [isPlan && "is-plan", isPointed && "pointed"].filter(Boolean).join(" ");
  return (
    <tr class={kinds} onMouseEnter={() => onPoint(tried)}>
      <th scope="row">
        <span class="plan-name">
          {tried.changes.length > 0 ? <ChangeNames changes={tried.changes} /> : tryName(tried)}
        </span>{" "}
        {isSameTry(tried, firstTry(found)) && (
          <span class="tag">{isPlan ? "the plan" : "the least"}</span>
        )}
      </th>
      <td>
        <span class="plan-bar" aria-hidden="true">
          <i class="within" style={{ width: percent(within) }} />
          {tried.needed > within && (
            <i class="beyond" style={{ width: percent(tried.needed - within) }} />
          )}
          <i class="limit" style={{ left: percent(found.capacity) }} />
        </span>
      </td>
      <td class="number">{formatBytes(tried.needed)}</td>
      <td>
        <b class={fit.kind} title={fit.hint}>
          {fit.text}
        </b>
      </td>
      <td class="number">{formatMultiple(tried.slow_down)}</td>
      <td>{tried.numerics}</td>
    </tr>
  );
}
