// What grew between two recordings.

import { useMemo } from "preact/hooks";
import type { Diff as DiffAnswer, DiffRow, Total } from "../../api/types.gen";
import {
  counted,
  formatBytes,
  formatChange,
  formatCount,
  formatPercentChange,
} from "../../base/bytes";
import { shortener } from "../../base/paths";
import { groupName, whenSentence } from "../../base/sentences";
import { grouping } from "../../model/address";
import { areSeveral } from "../../model/recording";
import { framesQuery } from "../../render/frames_toggle";
import { Answered, Empty } from "../../render/notices";
import { type Column, Table } from "../../render/table";
import "../../render/tools.css";
import type { View } from "../view";
import { type ChangeBar, changeBars } from "./bars";
import { Curves } from "./curves";
import "./diff.css";
import { SideChoosers, type Sides, sides, useDiffAnswer } from "./sides";
import { Tree } from "./tree";

const GROUPINGS = ["line", "module", "category", "op", "phase", "tensor", "stack"] as const;

function by(): string {
  const wanted = grouping.value;
  return (GROUPINGS as readonly string[]).includes(wanted) ? wanted : "line";
}

function Diff() {
  const both = sides();
  const diff = useDiffAnswer("diff", () => ({ by: by(), ...framesQuery() }));
  const curves = useDiffAnswer("diff/curves", () => ({}));
  if (!both) return null;
  return (
    <div class="diff">
      <SideChoosers both={both} />
      <div class="diff-sentence">
        {diff.value.value && <Sentence answer={diff.value.value} both={both} />}
      </div>
      <div class="panel diff-curves">
        <Answered asked={curves.value}>
          {(answer) => <Curves answer={answer} both={both} />}
        </Answered>
      </div>
      <div class="panel diff-tree">
        <Tree />
      </div>
      <div class="diff-below">
        <Answered asked={diff.value}>{(answer) => <Shown answer={answer} />}</Answered>
      </div>
    </div>
  );
}

function Sentence({ answer, both }: { answer: DiffAnswer; both: Sides }) {
  const isSame = both.a.card.id === both.b.card.id;
  return (
    <>
      <p>
        {sentence(answer)}
        {isSame && " Both sides are the same recording."}
      </p>
      <p class="quiet">
        {both.a.card.name} {whenSentence(answer.at.a)}; {both.b.card.name}{" "}
        {whenSentence(answer.at.b)}
      </p>
    </>
  );
}

function Shown({ answer }: { answer: DiffAnswer }) {
  const columns = useMemo(() => rowColumns(answer), [answer]);
  const isAtPeaks = answer.at.a.what === "peak" && answer.at.b.what === "peak";
  return (
    <>
      <section class="totals" aria-label="Totals">
        <TotalBars title="Allocated peak" total={answer.peaks.allocated} />
        {!isAtPeaks && <TotalBars title="Allocated at these times" total={answer.allocated} />}
        {answer.reserved && (
          <TotalBars
            title={isAtPeaks ? "Reserved at the allocated peak" : "Reserved at these times"}
            total={answer.reserved}
          />
        )}
        {answer.peaks.reserved && <TotalBars title="Reserved peak" total={answer.peaks.reserved} />}
      </section>
      <section class="panel diff-rows">
        {answer.rows.length === 0 ? (
          <Empty>
            <p>No {answer.by} holds more or less than before.</p>
          </Empty>
        ) : (
          <Table name={`changes by ${answer.by}`} columns={columns} rows={answer.rows} />
        )}
      </section>
    </>
  );
}

function sentence(answer: DiffAnswer): string {
  const isAtPeaks = answer.at.a.what === "peak" && answer.at.b.what === "peak";
  const { change, percent } = isAtPeaks ? answer.peaks.allocated : answer.allocated;
  const what = isAtPeaks ? "The peak of" : "What is allocated on";
  const share = percent === null ? "" : ` (${formatPercentChange(percent)})`;
  const word = change > 0 ? "rose by" : change < 0 ? "fell by" : "stayed the same";
  const { device, device_b } = answer;
  const on = device === device_b ? device : `${device}, then ${device_b},`;
  const peak =
    change === 0
      ? `${what} ${on} ${word}`
      : `${what} ${on} ${word} ${formatBytes(Math.abs(change))}${share}`;
  const left = answer.total_rows - answer.rows.length;
  const more = left > 0 ? `, ${counted(left, "smaller one")} not listed` : "";
  const rows = counted(answer.total_rows, "row");
  return `${peak}; by ${answer.by}, ${rows} changed${more}, ${formatCount(answer.unchanged_rows)} did not.`;
}

function TotalBars({ title, total }: { title: string; total: Total }) {
  const widest = Math.max(1, total.a, total.b);
  const side = (name: string, bytes: number) => (
    <div class="total-row">
      <span class="quiet">{name}</span>
      <span class="total-bar" aria-hidden="true">
        <i class={name} style={{ width: `${(100 * bytes) / widest}%` }} />
      </span>
      <span class="number">{formatBytes(bytes)}</span>
    </div>
  );
  return (
    <div class="panel total">
      <h3>
        {title}
        <b class={sign(total.change)}>{formatChange(total.change)}</b>
      </h3>
      {side("from", total.a)}
      {side("to", total.b)}
    </div>
  );
}

function sign(change: number): string {
  return change > 0 ? "grew" : change < 0 ? "shrank" : "quiet";
}

type BarredRow = DiffRow & { readonly bar?: ChangeBar };

function rowColumns(answer: DiffAnswer): Column<BarredRow>[] {
  const short = shortener(answer.rows.map((row) => row.location));
  const { zero, bars } = changeBars(answer.rows.map((row) => row.change));
  const barOf = new Map(answer.rows.map((row, index) => [row, bars[index]]));
  const bytes = (name: "a" | "b", title: string): Column<DiffRow> => ({
    name,
    title,
    isNumber: true,
    width: "98px",
    value: (row) => row[name],
    cell: (row) => (row[name] === 0 ? <span class="quiet">–</span> : formatBytes(row[name])),
  });
  return [
    {
      name: "change",
      title: "Change",
      isNumber: true,
      width: "108px",
      value: (row) => row.change,
      cell: (row) => <span class={sign(row.change)}>{formatChange(row.change)}</span>,
    },
    {
      name: "bar",
      title: "Less | more",
      width: "18%",
      value: (row) => Math.abs(row.change),
      searched: () => "",
      cell: (row) => <Bar bar={barOf.get(row)} zero={zero} change={row.change} />,
    },
    bytes("a", "From"),
    bytes("b", "To"),
    {
      name: "count",
      title: "Blocks",
      isNumber: true,
      width: "92px",
      value: (row) => row.count_b - row.count_a,
      cell: (row) => `${formatCount(row.count_a)} → ${formatCount(row.count_b)}`,
    },
    {
      name: "location",
      title: answer.by.replace(/^./, (letter) => letter.toUpperCase()),
      value: (row) => row.location,
      isLocation: true,
      cell: (row) => groupName(answer.by, short(row.location)),
      hint: (row) => groupName(answer.by, row.location),
    },
  ];
}

function Bar({ bar, zero, change }: { bar: ChangeBar | undefined; zero: number; change: number }) {
  const percent = (share: number) => `${100 * share}%`;
  return (
    <span class="change-bar" aria-hidden="true">
      <i class="zero" style={{ left: percent(zero) }} />
      {bar && (
        <i class={sign(change)} style={{ left: percent(bar.left), width: percent(bar.width) }} />
      )}
    </span>
  );
}

export const diff: View = {
  name: "diff",
  title: "Diff",
  key: "8",
  hint: "what grew between two recordings",
  component: Diff,
  groupings: GROUPINGS,
  isThere: () => areSeveral.value,
};
