// The findings: wasted bytes, lines that grow, and what to change.

import type { AdviceReport, Report, Steps } from "../../api/types.gen";
import { formatBytes, formatShare } from "../../base/bytes";
import { nameTail, shortener } from "../../base/paths";
import { capital } from "../../base/sentences";
import { device } from "../../model/recording";
import { useDeviceAnswer } from "../../model/use_answer";
import { ChangeText } from "../../render/change_text";
import { Answered } from "../../render/notices";
import { SourceLink } from "../../render/source_link";
import { Part, usePeakReport } from "./part";

const MOST_LEAKS = 2;
const MOST_ADVICE = 3;

export function Findings() {
  const hasAllocator = device.value?.reserved_peak !== null;
  const steps = useDeviceAnswer("steps", () => ({}));
  // The slowest request comes last, so that it delays no other.
  const advice = useDeviceAnswer("advice", () =>
    steps.value.value || steps.value.error ? {} : null,
  );
  const changes = (
    <Part title="What to change" to={{ view: "advice" }} more="advice">
      <Answered asked={advice.value}>{(value) => <Advice report={value} />}</Answered>
    </Part>
  );
  const growth = (
    <Part title="Growth from step to step" to={{ view: "steps" }} more="steps">
      <Answered asked={steps.value}>{(value) => <Growth steps={value} />}</Answered>
    </Part>
  );
  // The order of the parts depends on it: wait, so that nothing moves later.
  if (!steps.value.value && !steps.value.error) return <div class="overview-findings" />;
  const grows = (steps.value.value?.leaks?.rows.length ?? 0) > 0;
  return (
    <div class={grows ? "overview-findings grows" : "overview-findings"}>
      {changes}
      {growth}
      {hasAllocator && <Fragmentation />}
    </div>
  );
}

function Advice({ report }: { report: AdviceReport }) {
  const short = shortener(report.advice.map((one) => one.finding));
  if (report.advice.length === 0)
    return <p class="quiet">Nothing was found that would lower the peak.</p>;
  return (
    <ol class="overview-list">
      {report.advice.slice(0, MOST_ADVICE).map((one) => (
        <li key={`${one.kind} ${one.finding}`} class="advice-line">
          <span class="bytes saved">
            −{formatBytes(Math.max(one.saves_allocated, one.saves_reserved ?? 0))}
          </span>
          <span>
            <span class="advice-change" title={one.change}>
              <ChangeText text={one.change} />
            </span>
            <span class="quiet finding" title={one.finding}>
              {short(one.finding)}
            </span>
          </span>
        </li>
      ))}
    </ol>
  );
}

function Growth({ steps }: { steps: Steps }) {
  if (!steps.leaks)
    return <p class="quiet">{capital(steps.leaks_missing ?? "there are no steps")}.</p>;
  const { rows, total_rows } = steps.leaks;
  if (rows.length === 0) return <p class="quiet">No line grows from step to step.</p>;
  const short = shortener(rows.map((row) => row.location));
  return (
    <ul class="overview-list">
      {rows.slice(0, MOST_LEAKS).map((leak) => (
        <li key={leak.location} class="advice-line">
          <span class="bytes grew">+{formatBytes(leak.bytes_per_step)}</span>
          <span title={leak.location}>
            per step since step {leak.since}:{" "}
            <SourceLink location={leak.location}>{nameTail(short(leak.location), 48)}</SourceLink>
          </span>
        </li>
      ))}
      {total_rows > MOST_LEAKS && <li class="quiet">and {total_rows - MOST_LEAKS} more</li>}
    </ul>
  );
}

function Fragmentation() {
  const report = usePeakReport("segment");
  return (
    <Part title="Reserved at the peak" to={{ view: "segments" }} more="segments">
      <Answered asked={report.value}>{(value) => <Wasted report={value} />}</Answered>
    </Part>
  );
}

function Wasted({ report }: { report: Report }) {
  const at = report.fragmentation?.at;
  if (!at) return <p class="quiet">The trace does not say where blocks lie in their segments.</p>;
  return (
    <p>
      {formatBytes(at.reserved)} reserved, {formatBytes(at.free)} of it free (
      {formatShare(at.free, at.reserved)}), {formatBytes(at.unusable)} in blocks that are smaller
      than the largest request.
    </p>
  );
}
