// The columns of a report, for each grouping.

import type { Report, Row } from "../../api/types.gen";
import { formatBytes, formatCount, formatShare } from "../../base/bytes";
import { shortener } from "../../base/paths";
import { formatSeconds } from "../../base/seconds";
import { phaseName } from "../../base/sentences";
import type { Column } from "../../render/table";

/** Fields of rows other than numbers; each grouping has some of them. */
interface Details {
  readonly own?: number;
  readonly depth?: number;
  readonly class_name?: string | null;
  readonly name?: string | null;
  readonly shape?: string | null;
  readonly dtype?: string | null;
  readonly category?: string;
  readonly module?: string | null;
  readonly allocated_seconds?: number | null;
  readonly frames?: readonly {
    readonly file: string;
    readonly line: number;
    readonly function: string;
  }[];
  readonly largest?: readonly { readonly bytes: number; readonly location: string }[];
}

export function details(row: Row): Details {
  return row as unknown as Details;
}

export const GROUPINGS = [
  ["line", "Line"],
  ["module", "Module"],
  ["tensor", "Tensor"],
  ["op", "Operator"],
  ["category", "Category"],
  ["phase", "Phase"],
  ["stack", "Stack"],
] as const;
export type PeakBy = (typeof GROUPINGS)[number][0];

export function columnsOf(report: Report): Column<Row>[] {
  const most = Math.max(1, ...report.rows.map((row) => row.bytes));
  const bytes: Column<Row> = {
    name: "bytes",
    title: "Bytes",
    isNumber: true,
    width: "98px",
    value: (row) => row.bytes,
    cell: (row) => formatBytes(row.bytes),
    bar: (row) => row.bytes / most,
  };
  const share: Column<Row> = {
    name: "share",
    title: "%",
    isNumber: true,
    width: "72px",
    value: (row) => Number(((100 * row.bytes) / Math.max(1, report.allocated)).toFixed(2)),
    cell: (row) => formatShare(row.bytes, report.allocated),
  };
  const numbers = [bytes, share, ...own(report.by)];
  const shorten =
    report.by === "phase" ? phaseName : shortener(report.rows.map((row) => row.location));
  return [...numbers, ...names(report.by, shorten)];
}

function own(by: string): Column<Row>[] {
  if (by === "tensor") return [];
  const count: Column<Row> = {
    name: "count",
    title: "Count",
    isNumber: true,
    width: "66px",
    value: (row) => row.count,
    cell: (row) => formatCount(row.count),
  };
  const median: Column<Row> = {
    name: "median",
    title: "Median",
    isNumber: true,
    width: "90px",
    value: (row) => row.median,
    cell: (row) => formatBytes(row.median),
  };
  const alone: Column<Row> = {
    name: "own",
    title: "Its own",
    isNumber: true,
    width: "90px",
    value: (row) => details(row).own ?? 0,
    cell: (row) => formatBytes(details(row).own ?? 0),
  };
  return by === "module" ? [alone, count] : [count, median];
}

type Shorten = (location: string) => string;

function names(by: string, shorten: Shorten): Column<Row>[] {
  if (by === "tensor") return tensorNames(shorten);
  const location: Column<Row> = {
    name: "location",
    title: GROUPINGS.find(([name]) => name === by)?.[1] ?? "Location",
    value: (row) => row.location,
    isLocation: by === "line" || by === "stack",
    cell: (row) => (by === "module" ? <ModuleCell row={row} /> : shorten(row.location)),
    ...(by === "line" ? { module: (row: Row) => details(row).module } : {}),
    hint: hintOf,
    searched: (row) =>
      `${row.location} ${details(row).module ?? ""} ${details(row).class_name ?? ""}`,
  };
  return [location];
}

function ModuleCell({ row }: { row: Row }) {
  const { depth = 0, class_name: kind } = details(row);
  const name = depth > 0 ? (row.location.split(".").pop() ?? "") : row.location;
  // A derived name contains its class.
  const isNamed = kind != null && (name === kind || name.startsWith(`${kind} (`));
  return (
    <span style={{ paddingLeft: `${depth * 14}px` }}>
      {name} <span class="quiet">{isNamed ? "" : kind}</span>
    </span>
  );
}

/** The full text of a cell that may be cut off. */
function hintOf(row: Row): string {
  const more = details(row);
  if (more.frames)
    return more.frames.map((frame) => `${frame.function}  ${frame.file}:${frame.line}`).join("\n");
  if (more.largest)
    return more.largest.map((one) => `${formatBytes(one.bytes)}  ${one.location}`).join("\n");
  return row.location;
}

function tensorNames(shorten: Shorten): Column<Row>[] {
  const text = (
    name: string,
    title: string,
    value: (row: Row) => string,
    width?: string,
  ): Column<Row> => ({
    name,
    title,
    value,
    hint: value,
    ...(width ? { width } : {}),
  });
  return [
    text("name", "Tensor", (row) => details(row).name ?? shorten(row.location)),
    text(
      "shape",
      "Shape",
      (row) => [details(row).shape, details(row).dtype].filter(Boolean).join(" "),
      "130px",
    ),
    text("category", "Category", (row) => details(row).category ?? "", "116px"),
    {
      name: "allocated",
      title: "Allocated",
      isNumber: true,
      width: "86px",
      value: (row) => details(row).allocated_seconds ?? null,
      cell: (row) => {
        const allocated = details(row).allocated_seconds;
        return allocated === null || allocated === undefined ? "before" : formatSeconds(allocated);
      },
    },
  ];
}
