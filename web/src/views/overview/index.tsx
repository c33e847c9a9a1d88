// A recording on one page: its peak, what filled it, and what to change. Each part links to its
// view.

import type { Report } from "../../api/types.gen";
import { counted, formatBytes, formatShare } from "../../base/bytes";
import { groupColour } from "../../base/colours";
import { shortener } from "../../base/paths";
import { formatDuration } from "../../base/seconds";
import { momentSentence } from "../../base/sentences";
import { card, device, failed } from "../../model/recording";
import { inks } from "../../model/theme";
import { Link } from "../../render/link";
import { LocationText } from "../../render/location_text";
import { Answered } from "../../render/notices";
import { PlanLink } from "../../render/plan_link";
import { SourceLink } from "../../render/source_link";
import type { View } from "../view";
import { Findings } from "./findings";
import "./overview.css";
import { Part, usePeakReport } from "./part";
import { PeakStep } from "./peak_step";

/** The number of listed lines; the view of the peak has all. */
const MOST_LINES = 10;

function Overview() {
  return (
    <div class="overview">
      <Head />
      <div class="overview-row">
        <PeakStep />
        <Categories />
      </div>
      <div class="overview-row even">
        <Lines />
        <Findings />
      </div>
    </div>
  );
}

function Head() {
  const here = device.value;
  const summary = card.value?.summary;
  if (!here || !summary) return null;
  const { at, peak, reserved } = here;
  const facts = [
    here.name && `${here.name}${here.total === null ? "" : ` with ${formatBytes(here.total)}`}`,
    summary.header.phantom && simulatedFact(here.name, card.value?.has_plan === true),
    summary.steps > 0 && counted(summary.steps, "step"),
    `${counted(summary.allocations, "allocation")} in ${formatDuration(summary.seconds)}`,
    summary.header.torch && `torch ${summary.header.torch}`,
  ];
  return (
    <section>
      <h2>{momentSentence({ ...at, device: here.device, allocated: peak, reserved })}</h2>
      <p class="quiet">{facts.filter(Boolean).join(" · ")}</p>
      <PlanLink />
      {failed.value && (
        <p>
          An allocation failed: <Link to={{ view: "oom" }}>see why</Link>
        </p>
      )}
    </section>
  );
}

/** The run of a plan may reserve more than the GPU has, to find all that it needs. */
function simulatedFact(name: string, hasPlan: boolean): string {
  if (hasPlan) return "simulated without changes and without a limit";
  // The name of a simulated GPU may contain this.
  return name.includes("simulated") ? "" : "simulated";
}

function Categories() {
  const report = usePeakReport("category");
  return (
    <Part title="Categories at the peak" to={{ view: "peak", rows: "category" }} more="peak">
      <Answered asked={report.value}>{(value) => <CategoryList report={value} />}</Answered>
    </Part>
  );
}

function CategoryList({ report }: { report: Report }) {
  const colours = inks.value;
  return (
    <ul class="overview-list">
      {report.rows.map((row, index) => (
        <li key={row.location}>
          <span class="bytes">{formatBytes(row.bytes)}</span>
          <span class="share quiet">{formatShare(row.bytes, report.allocated)}</span>
          <span class="name">
            <i class="swatch" style={{ background: groupColour(colours, row.location, index) }} />
            {row.location}
          </span>
        </li>
      ))}
    </ul>
  );
}

function Lines() {
  const report = usePeakReport("line");
  return (
    <Part title="Lines with the most bytes at the peak" to={{ view: "peak" }} more="peak">
      <Answered asked={report.value}>{(value) => <LineList report={value} />}</Answered>
    </Part>
  );
}

function LineList({ report }: { report: Report }) {
  const rows = report.rows.slice(0, MOST_LINES);
  const short = shortener(rows.map((row) => row.location));
  const most = Math.max(1, ...rows.map((row) => row.bytes));
  return (
    <ol class="overview-list">
      {rows.map((row) => (
        <li key={row.location}>
          <span class="bytes">{formatBytes(row.bytes)}</span>
          <span class="share quiet">{formatShare(row.bytes, report.allocated)}</span>
          <span class="name barred location" title={row.location}>
            <i style={{ width: `${(100 * row.bytes) / most}%` }} />
            <SourceLink location={row.location}>
              <LocationText text={short(row.location)} />
            </SourceLink>
          </span>
        </li>
      ))}
      {report.total_rows > rows.length && (
        <li class="quiet">and {counted(report.total_rows - rows.length, "more line")}</li>
      )}
    </ol>
  );
}

export const overview: View = {
  name: "overview",
  title: "Overview",
  key: "1",
  hint: "the peak, what filled it, and what to do",
  component: Overview,
};
