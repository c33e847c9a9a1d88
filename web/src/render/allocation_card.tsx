// The card of one allocation, with all facts about it.

import type { AllocationCard, CardFrame } from "../api/types.gen";
import { formatBytes } from "../base/bytes";
import { pathTail } from "../base/paths";
import { formatDuration, formatSeconds } from "../base/seconds";
import { phaseName } from "../base/sentences";
import "./allocation_card.css";
import { FramesToggle, framesField } from "./frames_toggle";
import { SourceLink } from "./source_link";

export interface CardProps {
  readonly card: AllocationCard;
  /** Opens another allocation; null closes the card. */
  readonly onChoose: (id: number | null) => void;
}

export function Card({ card, onChoose }: CardProps) {
  return (
    <section class="allocation" aria-label="Allocation">
      <header>
        <h2>{formatBytes(card.bytes)}</h2>
        <span class="quiet">{card.name ?? `allocation ${card.id}`}</span>
        <button type="button" class="plain" aria-label="Close" onClick={() => onChoose(null)}>
          ✕
        </button>
      </header>
      <dl class="figures">
        {facts(card).map(([name, value]) => (
          <>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </>
        ))}
      </dl>
      <h3>
        {card.backward ? "Allocated by the backward pass of" : "Allocated at"}
        {card.frames.some((frame) => frame.is_folded) && <FramesToggle />}
      </h3>
      <Stack frames={card.frames} />
      {card.partner && <Partner partner={card.partner} onChoose={onChoose} />}
    </section>
  );
}

function facts(card: AllocationCard): [string, string][] {
  const freed = card.freed_seconds;
  const allocated = card.allocated_seconds;
  const lived =
    freed === null
      ? "until the end"
      : allocated === null
        ? `until ${formatSeconds(freed)}`
        : formatDuration(freed - allocated);
  const all: [string, string | null][] = [
    [
      "requested",
      card.requested === null || card.requested === card.bytes ? null : formatBytes(card.requested),
    ],
    ["category", card.category],
    ["module", card.module],
    ["operator", card.op],
    ["phase", card.phase && phaseName(card.phase)],
    ["step", card.step === null ? null : String(card.step)],
    [
      "allocated",
      card.before_recording || allocated === null ? "before recording" : formatSeconds(allocated),
    ],
    ["saved for backward", card.saved_seconds === null ? null : formatSeconds(card.saved_seconds)],
    [
      "last known use",
      card.last_use_seconds === null ? null : formatSeconds(card.last_use_seconds),
    ],
    ["freed", freed === null ? "not in this recording" : formatSeconds(freed)],
    ["lived", lived],
    ["address", card.address],
    ["stream", card.stream === null ? null : String(card.stream)],
    ["pool", card.pool === null ? null : String(card.pool)],
  ];
  return all.filter((fact): fact is [string, string] => fact[1] !== null && fact[1] !== "");
}

/** The call stack, innermost first; frames of frameworks, if shown, are dimmed. */
function Stack({ frames }: { frames: readonly CardFrame[] }) {
  if (frames.length === 0) return <p class="quiet">No Python frame was recorded.</p>;
  const shown = framesField.value === "all" ? frames : frames.filter((frame) => !frame.is_folded);
  return (
    <ol class="stack">
      {shown.map((frame, at) => (
        <li key={at} class={frame.is_folded ? "library" : ""} title={`${frame.file}:${frame.line}`}>
          <b>{frame.function}</b>
          <span class="mono">
            <SourceLink location={`${frame.file}:${frame.line}`}>
              {pathTail(frame.file, 3)}:{frame.line}
            </SourceLink>
          </span>
        </li>
      ))}
    </ol>
  );
}

function Partner({
  partner,
  onChoose,
}: {
  partner: NonNullable<AllocationCard["partner"]>;
  onChoose: CardProps["onChoose"];
}) {
  const shown = partner.ids.slice(0, 6);
  return (
    <>
      <h3>{partner.kind === "forward" ? "Its forward" : "Its backward"}</h3>
      <p class="partners">
        {shown.map((id) => (
          <button key={id} type="button" onClick={() => onChoose(id)}>
            allocation {id}
          </button>
        ))}
        {partner.ids.length > shown.length && (
          <span class="quiet">and {partner.ids.length - shown.length} more</span>
        )}
      </p>
      {partner.kind === "forward" && <Stack frames={partner.frames} />}
    </>
  );
}
