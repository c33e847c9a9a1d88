// What fills the memory, the largest cause first: each with a bar in the colour of its category, and its share.

import type { Cause, CauseKind } from "../api/types.gen";
import { counted, formatBytes, formatShare } from "../base/bytes";
import { categoryColour } from "../base/colours";
import { shortener } from "../base/paths";
import { inks } from "../model/theme";
import "./causes.css";
import { LocationText } from "./location_text";
import { SourceLink } from "./source_link";

/** The category whose colour each cause gets. */
const CATEGORY: Readonly<Record<Exclude<CauseKind, "failed_allocation">, string>> = {
  logits: "activation",
  block_activations: "activation",
  activations: "activation",
  parameters: "parameter",
  gradients: "gradient",
  optimizer_state: "optimizer state",
  optimizer_temporaries: "temporary",
  temporaries: "temporary",
  inputs: "input",
  buffers: "buffer",
  workspaces: "workspace",
  communication: "communication",
  kv_cache: "KV cache",
  unknown: "unknown",
};

/** Causes with a smaller share of all bytes show their location only in the title. */
const LEAST_LOCATED = 0.01;

export function Causes({ causes }: { causes: readonly Cause[] }) {
  const whole = causes.reduce((sum, cause) => sum + cause.bytes, 0);
  const most = Math.max(1, ...causes.map((cause) => cause.bytes));
  const short = shortener(causes.map((cause) => cause.location ?? ""));
  return (
    <ol class="causes">
      {causes.map((cause) => (
        <li key={`${cause.kind} ${cause.name}`} title={hint(cause)}>
          <span class="bytes">{formatBytes(cause.bytes)}</span>
          <span class="share quiet">{formatShare(cause.bytes, whole)}</span>
          <span class="cause-bar" aria-hidden="true">
            <i
              class={cause.kind === "failed_allocation" ? "failed" : ""}
              style={{ width: `${(100 * cause.bytes) / most}%`, background: colourOf(cause.kind) }}
            />
          </span>
          <span class="cause-name">{cause.name}</span>
          {cause.location && cause.bytes >= LEAST_LOCATED * whole && (
            <span class="cause-location location quiet">
              <SourceLink location={cause.location}>
                <LocationText text={short(cause.location)} />
              </SourceLink>
            </span>
          )}
        </li>
      ))}
    </ol>
  );
}

/** The failed request was never allocated: hatched, as in the bar of the memory. */
function colourOf(kind: CauseKind): string | undefined {
  return kind === "failed_allocation" ? undefined : categoryColour(inks.value, CATEGORY[kind]);
}

function hint(cause: Cause): string {
  if (cause.kind === "failed_allocation")
    return cause.location ? `Requested at ${cause.location}` : "Requested, and not allocated";
  const count = counted(cause.count, "allocation");
  return cause.location ? `${count}, most bytes at ${cause.location}` : count;
}
