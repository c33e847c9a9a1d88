// What to change, with the bytes that each change saves, and the same requests under other
// allocator settings.

import type { Advice as AdviceCard, AdviceKind, AdviceReport } from "../../api/types.gen";
import { formatBytes, formatShare } from "../../base/bytes";
import { shortener } from "../../base/paths";
import { capital } from "../../base/sentences";
import { device } from "../../model/recording";
import { useDeviceAnswer } from "../../model/use_answer";
import { Causes } from "../../render/causes";
import { ChangeText } from "../../render/change_text";
import { CopyButton } from "../../render/copy_button";
import { Answered } from "../../render/notices";
import type { View } from "../view";
import "./advice.css";
import { changePieces } from "../../base/change";
import { Sweep } from "./sweep";

const KINDS: Readonly<Record<AdviceKind, string>> = {
  allocator_settings: "Allocator settings",
  leak: "Kept from step to step",
  idle: "Idle through the peak",
  stale_gradients: "Gradients that are not read again",
  optimizer_temporaries: "Temporaries of the optimizer",
  checkpointing: "Activations of repeated blocks",
  logits: "Logits and loss",
};

function Advice() {
  const advice = useDeviceAnswer("advice", () => ({}));
  const isKnown = advice.value.value !== null || advice.value.error !== null;
  return (
    <div class="advice">
      <Answered asked={advice.value}>
        {(report) => (
          <>
            <Filling report={report} />
            <Changes report={report} />
          </>
        )}
      </Answered>
      <Sweep isShown={isKnown} />
    </div>
  );
}

function Filling({ report }: { report: AdviceReport }) {
  const when = report.failed_requests > 0 ? "at the failed allocation" : "at the peak";
  return (
    <section aria-labelledby="advice-causes">
      <h2 id="advice-causes">What fills the memory {when}</h2>
      <div class="panel advice-causes">
        <Causes causes={report.causes} />
      </div>
    </section>
  );
}

function Changes({ report }: { report: AdviceReport }) {
  const short = shortener(report.advice.map((advice) => advice.finding));
  const reserved =
    report.peak_reserved === null ? "" : `, ${formatBytes(report.peak_reserved)} reserved`;
  return (
    <section aria-labelledby="advice-changes">
      <h2 id="advice-changes">What to change</h2>
      <p>
        {report.peak_reserved === null ? "Peak" : "Simulated peak"} of {report.device}:{" "}
        {formatBytes(report.peak_allocated)} allocated{reserved}
        {recordedSentence(report)}. {changesSentence(report)}
      </p>
      <ol class="advice-cards">
        {report.advice.map((advice) => (
          <Card
            key={`${advice.kind} ${advice.finding}`}
            advice={advice}
            finding={short(advice.finding)}
            report={report}
          />
        ))}
      </ol>
      {report.notes.length > 0 && (
        <ul class="advice-notes quiet">
          {report.notes.map((note) => (
            <li key={note}>{capital(note)}</li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** The recorded peak of reserved bytes, if the simulation has a different one. */
function recordedSentence(report: AdviceReport): string {
  const recorded = device.value?.device === report.device ? device.value.reserved_peak : null;
  if (recorded === null || report.peak_reserved === null || recorded === report.peak_reserved)
    return "";
  return ` (recorded: ${formatBytes(recorded)} reserved)`;
}

function changesSentence(report: AdviceReport): string {
  const failed =
    report.failed_requests > 0 ? " Failed allocations are counted as if they had succeeded." : "";
  const doubt =
    report.is_reproduced === false
      ? " The simulation does not reproduce the recording: the savings are approximate."
      : "";
  if (report.advice.length === 0) return `Nothing was found that would lower it.${failed}${doubt}`;
  const each =
    report.advice.length === 1
      ? "One change would lower it."
      : `${report.advice.length} changes would lower it, each by itself.`;
  return `${each}${failed}${doubt}`;
}

interface CardProps {
  readonly advice: AdviceCard;
  readonly finding: string;
  readonly report: AdviceReport;
}

function Card({ advice, finding, report }: CardProps) {
  return (
    <li class="panel advice-card">
      <div>
        <h3>{KINDS[advice.kind]}</h3>
        <p class="finding">{finding}</p>
        <Change change={advice.change} />
      </div>
      <div class="savings">
        {advice.saves_reserved !== null && report.peak_reserved !== null && (
          <Saving
            what="reserved"
            saved={advice.saves_reserved}
            left={advice.peak_reserved ?? 0}
            before={report.peak_reserved}
          />
        )}
        <Saving
          what="allocated"
          saved={advice.saves_allocated}
          left={advice.peak_allocated}
          before={report.peak_allocated}
        />
      </div>
    </li>
  );
}

function Change({ change }: { change: string }) {
  const code = changePieces(change).filter((piece) => piece.isCode);
  return (
    <p class="change">
      <span>
        <ChangeText text={change} />
      </span>
      {code.map((piece) => (
        <CopyButton
          key={piece.text}
          text={piece.text}
          hint={code.length > 1 ? `Copy ${piece.text}` : "Copy"}
        />
      ))}
    </p>
  );
}

interface SavingProps {
  readonly what: string;
  readonly saved: number;
  readonly left: number;
  readonly before: number;
}

/** The whole bar is the recorded peak; saved bytes are hatched. */
function Saving({ what, saved, left, before }: SavingProps) {
  const share = before > 0 ? Math.min(1, saved / before) : 0;
  return (
    <div class="saving">
      <span>
        {saved > 0 ? (
          <>
            <b>−{formatBytes(saved)}</b> {what}
            <span class="quiet"> {formatShare(saved, before)}</span>
          </>
        ) : (
          <span class="quiet">{what} stays the same</span>
        )}
      </span>
      <span class="quiet">{formatBytes(left)} remain</span>
      <span class="saving-bar" aria-hidden="true">
        <i class="left" style={{ width: `${100 * (1 - share)}%` }} />
        <i class="saved" style={{ width: `${100 * share}%` }} />
      </span>
    </div>
  );
}

export const advice: View = {
  name: "advice",
  title: "Advice",
  key: "7",
  hint: "what to change, and the bytes that each change saves",
  component: Advice,
};
