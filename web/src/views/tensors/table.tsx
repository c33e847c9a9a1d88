// The tensors as a table, a row for each.

import { useMemo } from "preact/hooks";
import type { Lifetimes } from "../../api/types.gen";
import { formatBytes } from "../../base/bytes";
import { shortener } from "../../base/paths";
import { formatDuration, formatSeconds } from "../../base/seconds";
import { phaseName } from "../../base/sentences";
import { choose, chosenId } from "../../render/chosen_card";
import { type Column, Table } from "../../render/table";
import type { Tensor } from "./draw";

type Line = Tensor & { readonly module: string | null };
type Moment = "allocated_seconds" | "saved_seconds" | "last_use_seconds" | "freed_seconds";

export function TensorTable({ answer, seconds }: { answer: Lifetimes; seconds: number }) {
  const lines = useMemo(
    () =>
      answer.rows.flatMap((row) =>
        row.tensors.map((each): Line => ({ ...each, module: row.module })),
      ),
    [answer],
  );
  const columns = useMemo(() => tensorColumns(lines, seconds), [lines, seconds]);
  return (
    <Table
      name="tensors"
      columns={columns}
      rows={lines}
      order={{ name: "bytes", isDescending: true }}
      isPicked={(line) => line.id === chosenId.value}
      onPick={(line) => choose(line.id)}
    />
  );
}

function tensorColumns(lines: readonly Line[], seconds: number): Column<Line>[] {
  const largest = lines.reduce((most, line) => Math.max(most, line.bytes), 1);
  const lived = (line: Line) => (line.freed_seconds ?? seconds) - (line.allocated_seconds ?? 0);
  const idle = (line: Line) =>
    line.last_use_seconds === null
      ? null
      : Math.max(0, (line.freed_seconds ?? seconds) - line.last_use_seconds);
  const shorten = shortener(lines.flatMap((line) => line.name ?? []));
  const moment = (name: Moment, title: string, none: string): Column<Line> => ({
    name,
    title,
    isNumber: true,
    width: "86px",
    value: (line) => line[name],
    cell: (line) => {
      const at = line[name];
      return at === null ? <span class="quiet">{none}</span> : formatSeconds(at);
    },
  });
  return [
    {
      name: "bytes",
      title: "Bytes",
      isNumber: true,
      width: "100px",
      value: (line) => line.bytes,
      cell: (line) => formatBytes(line.bytes),
      bar: (line) => line.bytes / largest,
    },
    { name: "category", title: "Category", width: "120px", value: (line) => line.category },
    moment("allocated_seconds", "Allocated", "before"),
    moment("freed_seconds", "Freed", "never"),
    {
      name: "lived",
      title: "Lived",
      isNumber: true,
      width: "86px",
      value: lived,
      cell: (line) => formatDuration(lived(line)),
    },
    moment("saved_seconds", "Saved", ""),
    moment("last_use_seconds", "Last use", ""),
    {
      name: "idle",
      title: "Idle after it",
      isNumber: true,
      width: "100px",
      value: idle,
      cell: (line) => {
        const found = idle(line);
        return found === null ? "" : formatDuration(found);
      },
    },
    {
      name: "phase",
      title: "Phase",
      width: "90px",
      value: (line) => line.phase && phaseName(line.phase),
    },
    {
      name: "module",
      title: "Module",
      width: "150px",
      keepsEnd: true,
      value: (line) => line.module,
      hint: (line) => line.module ?? "",
    },
    {
      name: "name",
      title: "Name",
      isLocation: true,
      value: (line) => line.name,
      cell: (line) => shorten(line.name ?? ""),
      hint: (line) => line.name ?? "",
    },
  ];
}
