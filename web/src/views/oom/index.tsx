// Why an allocation failed, and what would have helped.

import type { AdviceReport, OomReport, Proof, Row } from "../../api/types.gen";
import { formatBytes, formatShare } from "../../base/bytes";
import { settingsCommand } from "../../base/change";
import { shortener } from "../../base/paths";
import { momentSentence } from "../../base/sentences";
import { failed } from "../../model/recording";
import { useDeviceAnswer } from "../../model/use_answer";
import { Causes } from "../../render/causes";
import { ChangeText } from "../../render/change_text";
import { CopyButton } from "../../render/copy_button";
import { Link } from "../../render/link";
import { LocationText } from "../../render/location_text";
import { Answered } from "../../render/notices";
import { PlanLink } from "../../render/plan_link";
import { SourceLink } from "../../render/source_link";
import type { View } from "../view";
import { MemoryAtFailure } from "./bar";
import "./oom.css";

/** The number of shown changes, lines and modules; their views have all. */
const MOST_ADVICE = 3;
const MOST_OWNERS = 6;

function Oom() {
  const report = useDeviceAnswer("oom", () => ({}), { of: failed });
  const advice = useDeviceAnswer("advice", () => ({}), { of: failed });
  return (
    <div class="oom">
      <Answered asked={report.value}>
        {(found) => (
          <Shown
            report={found}
            advice={advice.value.value}
            isAsked={advice.value.value !== null || advice.value.error !== null}
          />
        )}
      </Answered>
    </div>
  );
}

interface ShownProps {
  readonly report: OomReport;
  readonly advice: AdviceReport | null;
  /** Whether the request for advice has ended. */
  readonly isAsked: boolean;
}

function Shown({ report, advice, isAsked }: ShownProps) {
  return (
    <>
      <Why report={report} />
      <MemoryAtFailure report={report} />
      <div class="oom-columns">
        <Filling advice={advice} isAsked={isAsked} />
        <div class="oom-helps">
          <Proofs report={report} />
          <Changes report={report} advice={advice} />
        </div>
      </div>
      {/* Below the part that grows when the advice arrives, so that nothing visible moves. */}
      {isAsked && (
        <div class="oom-columns">
          <Owners title="Live allocations, by line" by="line" rows={report.lines} whole={report} />
          <Owners
            title="Live allocations, by module"
            by="module"
            rows={report.modules}
            whole={report}
          />
        </div>
      )}
    </>
  );
}

/** Every live byte by cause, the failed request among them. */
function Filling({ advice, isAsked }: Omit<ShownProps, "report">) {
  return (
    <section class="panel oom-part" aria-labelledby="oom-causes">
      <h3 id="oom-causes">What fills the memory at the failed allocation</h3>
      {!isAsked && <p class="quiet">Reading…</p>}
      {advice && <Causes causes={advice.causes} />}
    </section>
  );
}

/** `capacity. 1.7 GiB are …` as a title and a sentence. */
function Why({ report }: { report: OomReport }) {
  const [reason = "", ...rest] = report.why.split(". ");
  const { device, allocated, reserved } = report;
  return (
    <section class="oom-why" aria-labelledby="oom-why">
      <h2 id="oom-why">
        Out of memory: <span class="reason">{reason}</span>
      </h2>
      <p class="cause">{rest.join(". ")}.</p>
      {report.is_own_limit && report.device_free !== null && (
        <p>
          The device had {formatBytes(report.device_free)} left: torch is limited by{" "}
          <code>set_per_process_memory_fraction</code>.
        </p>
      )}
      <p class="quiet">
        {momentSentence({ ...report.at, device, allocated, reserved })} ·{" "}
        <Link to={{ view: "timeline", at: "oom", device }}>see it in the timeline</Link>
      </p>
      <PlanLink />
    </section>
  );
}

function Proofs({ report }: { report: OomReport }) {
  return (
    <section class="panel oom-part" aria-labelledby="oom-proofs">
      <h3 id="oom-proofs">Would this request have succeeded? Simulated with the same requests</h3>
      {report.proofs.length === 0 ? (
        <p class="quiet">
          The recording shows no limit, so nothing can be simulated: it lacks the figures of the
          device.
        </p>
      ) : (
        <ul class="oom-proofs">
          {[...report.proofs].sort(fitsFirst).map((proof) => (
            <li key={`${proof.alloc_conf} ${proof.extra_memory}`} class={proof.fits ? "fits" : ""}>
              <b>{proof.fits ? "✓ succeeds" : "✗ fails"}</b>
              <span>{proofSentence(proof)}</span>
              {proof.fits && proof.extra_memory === 0 && (
                <CopyButton text={settingsCommand(proof.alloc_conf)} />
              )}
            </li>
          ))}
        </ul>
      )}
      {report.proofs.some((proof) => proof.fits) && <p class="quiet">{report.scope}.</p>}
    </section>
  );
}

function fitsFirst(one: Proof, other: Proof): number {
  return Number(other.fits) - Number(one.fits);
}

function proofSentence(proof: Proof) {
  if (proof.extra_memory > 0) return `with ${formatBytes(proof.extra_memory)} more memory`;
  return (
    <>
      with <code>{proof.alloc_conf}</code>
    </>
  );
}

function Changes({ report, advice }: { report: OomReport; advice: AdviceReport | null }) {
  const short = shortener(advice?.advice.map((one) => one.finding) ?? []);
  const shown = advice?.advice.slice(0, MOST_ADVICE) ?? [];
  return (
    <section class="panel oom-part" aria-labelledby="oom-changes">
      <h3 id="oom-changes">
        What to change{" "}
        <Link to={{ view: "advice", device: report.device }}>
          all advice and allocator settings
        </Link>
      </h3>
      {!advice && <p class="quiet">Reading…</p>}
      {advice && shown.length === 0 && (
        <p class="quiet">Nothing was found that would lower the peak of this program.</p>
      )}
      <ol class="oom-changes">
        {shown.map((one) => (
          <li key={`${one.kind} ${one.finding}`}>
            <b>−{formatBytes(Math.max(one.saves_allocated, one.saves_reserved ?? 0))}</b>
            <div>
              <p>
                <ChangeText text={one.change} />
              </p>
              <p class="quiet" title={one.finding}>
                {short(one.finding)}
                {report.limit !== null &&
                  one.peak_reserved !== null &&
                  one.peak_reserved <= report.limit &&
                  ` · ${formatBytes(one.peak_reserved)} reserved, below the limit`}
              </p>
            </div>
          </li>
        ))}
      </ol>
    </section>
  );
}

interface OwnersProps {
  readonly title: string;
  readonly by: "line" | "module";
  readonly rows: readonly Row[];
  readonly whole: OomReport;
}

function Owners({ title, by, rows, whole }: OwnersProps) {
  const short = shortener(rows.map((row) => row.location));
  const to = { view: "peak", at: "oom", rows: by === "line" ? null : by, device: whole.device };
  return (
    <section class="panel oom-part" aria-label={title}>
      <h3>
        {title} <Link to={to}>all</Link>
      </h3>
      <ol class="oom-owners">
        {rows.slice(0, MOST_OWNERS).map((row) => (
          <li key={row.location}>
            <span class="bytes">{formatBytes(row.bytes)}</span>
            <span class="share quiet">{formatShare(row.bytes, whole.allocated)}</span>
            <span class="name barred location" title={row.location}>
              <i style={{ width: `${(100 * row.bytes) / Math.max(1, whole.allocated)}%` }} />
              {by === "line" ? (
                <SourceLink location={row.location}>
                  <LocationText text={short(row.location)} />
                </SourceLink>
              ) : (
                row.location
              )}
            </span>
          </li>
        ))}
      </ol>
    </section>
  );
}

export const oom: View = {
  name: "oom",
  title: "OOM",
  key: "o",
  hint: "why an allocation failed, and what would have helped",
  component: Oom,
  isThere: () => failed.value !== null,
};
