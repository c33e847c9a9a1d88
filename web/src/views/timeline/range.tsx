// The changes within the selected range: net, allocated, freed, and remaining bytes, by line.

import type { Change, ChangeRow, RangeChanges } from "../../api/types.gen";
import { counted, formatBytes, formatChange } from "../../base/bytes";
import { shortener } from "../../base/paths";
import { formatDuration } from "../../base/seconds";
import { whenSentence } from "../../base/sentences";
import { field, go } from "../../model/address";
import { useDeviceAnswer } from "../../model/use_answer";
import { Choices } from "../../render/choices";
import { Answered } from "../../render/notices";
import { type Column, Table } from "../../render/table";
import { choose, chosenId, select, selected } from "./state";
import { goTo } from "./window";

const GROUPINGS = [
  ["line", "Line"],
  ["module", "Module"],
  ["category", "Category"],
] as const;
type RangeBy = (typeof GROUPINGS)[number][0];

/** The number of listed rows. */
const MOST_ROWS = 2000;

const byField = field("changes", "line");

function by(): RangeBy {
  return GROUPINGS.find(([name]) => name === byField.value)?.[0] ?? "line";
}

export function RangePanel() {
  const answer = useDeviceAnswer("range", () => {
    const range = selected.value;
    return range && { ...range, by: by(), top: MOST_ROWS };
  });
  return (
    <section class="panel range" aria-label="Selected range">
      <Answered asked={answer.value}>{(value) => <Changes found={value} />}</Answered>
    </section>
  );
}

function Changes({ found }: { found: RangeChanges }) {
  const grouping = by();
  return (
    <>
      <Sentence found={found} />
      <Figures change={found.change} />
      <Table
        name={`changes by ${grouping}`}
        columns={columnsOf(found.rows, grouping)}
        rows={found.rows}
        isPicked={(row) => row.largest !== null && row.largest === chosenId.value}
        onPick={(row) => row.largest !== null && choose(row.largest)}
      >
        <Choices
          label="Changes"
          all={GROUPINGS}
          chosen={grouping}
          onChoose={(choice) => go({ changes: choice === "line" ? null : choice })}
        />
        <button type="button" onClick={() => goTo(selected.peek())}>
          Zoom to it
        </button>
        <button type="button" onClick={() => select(null)}>
          Clear
        </button>
      </Table>
    </>
  );
}

/** `From 1.000 s in step 3 to 1.200 s in step 3 (200.0 ms): 1.000 GiB → 1.200 GiB`. */
function Sentence({ found }: { found: RangeChanges }) {
  const { from, to } = found;
  const times = `From ${whenSentence(from).slice(3)} to ${whenSentence(to).slice(3)}`;
  const length = formatDuration(to.seconds - from.seconds);
  return (
    <p class="range-sentence" aria-live="polite">
      {times} ({length}): {formatBytes(found.allocated_from)} → {formatBytes(found.allocated_to)}
    </p>
  );
}

function Figures({ change }: { change: Change }) {
  const { net, allocated, freed, survivors, gone } = change;
  const blocks = (count: number) => (count > 0 ? counted(count, "allocation") : "");
  const all: [string, string, string, string][] = [
    ["Net change", formatChange(net), "", "Allocated at the end, minus allocated at the start"],
    ["Allocated", formatBytes(allocated.bytes), blocks(allocated.count), "In the range"],
    ["Freed", formatBytes(freed.bytes), blocks(freed.count), "In the range, whenever allocated"],
    [
      "Survivors",
      formatBytes(survivors.bytes),
      blocks(survivors.count),
      "Allocated in the range and live at its end: live here, and not at the start",
    ],
    ["Gone", formatBytes(gone.bytes), blocks(gone.count), "Live at the start, and not at the end"],
  ];
  return (
    <dl class="range-figures">
      {all.map(([name, bytes, count, hint]) => (
        <div key={name} title={hint}>
          <dt>{name}</dt>
          <dd>
            {bytes} <span class="quiet">{count}</span>
          </dd>
        </div>
      ))}
    </dl>
  );
}

function columnsOf(rows: readonly ChangeRow[], grouping: RangeBy): Column<ChangeRow>[] {
  const short = shortener(rows.map((row) => row.location));
  const most = Math.max(1, ...rows.map((row) => row.survivors.bytes));
  const amount = (name: "allocated" | "freed" | "gone", title: string): Column<ChangeRow> => ({
    name,
    title,
    isNumber: true,
    width: "96px",
    value: (row) => row[name].bytes,
    cell: (row) =>
      row[name].bytes === 0 ? <span class="quiet">–</span> : formatBytes(row[name].bytes),
    hint: (row) => counted(row[name].count, "allocation"),
  });
  return [
    {
      name: "survivors",
      title: "Survivors",
      isNumber: true,
      width: "104px",
      value: (row) => row.survivors.bytes,
      cell: (row) => formatBytes(row.survivors.bytes),
      bar: (row) => row.survivors.bytes / most,
      hint: (row) => counted(row.survivors.count, "allocation"),
    },
    amount("gone", "Gone"),
    {
      name: "net",
      title: "Net",
      isNumber: true,
      width: "104px",
      value: (row) => row.net,
      cell: (row) => (
        <span class={row.net > 0 ? "grew" : row.net < 0 ? "shrank" : "quiet"}>
          {formatChange(row.net)}
        </span>
      ),
    },
    amount("allocated", "Allocated"),
    amount("freed", "Freed"),
    {
      name: "location",
      title: GROUPINGS.find(([name]) => name === grouping)?.[1] ?? "Line",
      value: (row) => row.location,
      isLocation: grouping === "line",
      cell: (row) => short(row.location),
      hint: (row) => row.location,
    },
  ];
}
