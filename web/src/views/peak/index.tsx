// What filled the device at a chosen time: the report as a table beside an icicle. A strip above
// chooses the time.

import { useState } from "preact/hooks";
import type { Report, Row } from "../../api/types.gen";
import { counted, formatBytes } from "../../base/bytes";
import { momentSentence } from "../../base/sentences";
import { cursor, field, go } from "../../model/address";
import { useDeviceAnswer } from "../../model/use_answer";
import { Choices } from "../../render/choices";
import { framesQuery } from "../../render/frames_toggle";
import { MomentButtons, MomentStrip, Nearest } from "../../render/moments";
import { Answered } from "../../render/notices";
import { Table } from "../../render/table";
import { treeBy } from "../../render/tree_tools";
import { useKeys } from "../../render/use_keys";
import type { View } from "../view";
import { columnsOf, details, GROUPINGS, type PeakBy } from "./columns";
import "./peak.css";
import { DRAG_MILLIS, search } from "./search";
import { Tree } from "./tree";

/** The number of listed rows; the others are summed below the table. */
const MOST_ROWS = 5000;

const by = field("rows", "line");

function Peak() {
  const report = useDeviceAnswer(
    "report",
    () => ({
      by: by.value,
      at: cursor.value,
      top: MOST_ROWS,
      ...(by.value === "stack" ? framesQuery() : {}),
    }),
    { delayMillis: DRAG_MILLIS },
  );
  useKeys("Peak", [
    { keys: ["p"], hint: "The peak", run: () => go({ at: null }) },
    { keys: ["e"], hint: "The end", run: () => go({ at: "end" }) },
    { keys: ["Escape"], hint: "Clear the search", run: () => search("") },
  ]);
  return (
    <div class="peak">
      <Head report={report.value.value} />
      <div class="panel peak-strip">
        <MomentStrip seconds={report.value.value?.at.seconds ?? null} />
      </div>
      <div class="panel peak-table">
        <Answered asked={report.value}>{(value) => <Rows report={value} />}</Answered>
      </div>
      <div class="panel peak-flame">
        <Tree />
      </div>
    </div>
  );
}

function Head({ report }: { report: Report | null }) {
  return (
    <div class="peak-head">
      <p class="sentence" aria-live="polite">
        {report && momentSentence({ ...report.at, ...totals(report) })}
        <Nearest seconds={report?.at.seconds ?? null} />
      </p>
      <MomentButtons />
    </div>
  );
}

function totals(report: Report) {
  const { device, allocated, reserved } = report;
  return { device, allocated, reserved };
}

function Rows({ report }: { report: Report }) {
  const [picked, setPicked] = useState<Row | null>(null);
  const left = report.total_rows - report.rows.length;
  return (
    <div class="peak-rows">
      <Table
        key={report.by}
        name={`report by ${report.by}`}
        columns={columnsOf(report)}
        rows={report.rows}
        isPicked={(row) => row === picked}
        onPick={(row) => {
          setPicked(row);
          search(searchFor(row, report.by, treeBy.peek()));
        }}
      >
        <Choices
          label="Rows"
          all={GROUPINGS}
          chosen={report.by as PeakBy}
          onChoose={(choice) => go({ rows: choice === "line" ? null : choice })}
        />
      </Table>
      {left > 0 && (
        <p class="quiet below">
          and {counted(left, "smaller row")},{" "}
          {formatBytes(report.allocated - (report.rows.at(-1)?.cumulative ?? 0))}
        </p>
      )}
    </div>
  );
}

/** The search text for a row in the icicle; one by module has no files. */
function searchFor(row: Row, by: string, tree: string): string {
  const more = details(row);
  if (tree === "module") return lastName(by === "module" ? row.location : (more.module ?? ""));
  const frame = more.frames?.[0];
  if (frame) return `${frame.file}:${frame.line}`;
  const { file, line } = row as unknown as { file?: string | null; line?: number | null };
  if (file && line) return `${file}:${line}`;
  return by === "module" ? lastName(row.location) : "";
}

/**
 * The last part of a module's name; empty if that is a number, which would match
 * everywhere.
 */
function lastName(module: string): string {
  const last = module.split(".").pop() ?? "";
  return /^\d*$/.test(last) ? "" : last;
}

export const peak: View = {
  name: "peak",
  title: "Peak",
  key: "3",
  hint: "what filled the device at a chosen time",
  component: Peak,
};
