// A table of any length: only visible rows are in the DOM. It can be sorted, filtered and copied as
// CSV.

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { formatCount } from "../base/bytes";
import { field, go } from "../model/address";
import { LocationText } from "./location_text";
import { useSize } from "./picture";
import { arranged, type ColumnValues, nextOrder, type Order } from "./rows";
import { copyText, csvOf, download } from "./save";
import { SourceMark } from "./source_link";

export interface Column<R> extends ColumnValues<R> {
  readonly title: string;
  readonly isNumber?: boolean;
  /** Whether the text is a location: file, line and function come first, folders after them. */
  readonly isLocation?: boolean;
  /** The module of a location. */
  readonly module?: (row: R) => string | null | undefined;
  /** Whether a long text is cut at its beginning. */
  readonly keepsEnd?: boolean;
  /** A CSS length; `auto` by default. */
  readonly width?: string;
  readonly cell?: (row: R) => ComponentChildren;
  /** The cell's title, for texts that may be cut off. */
  readonly hint?: (row: R) => string;
  /** The length of a bar behind the cell, 0 to 1. */
  readonly bar?: (row: R) => number;
}

export interface TableProps<R> {
  /** The name of the table, for screen readers and saved files. */
  readonly name: string;
  readonly columns: readonly Column<R>[];
  readonly rows: readonly R[];
  readonly order?: Order;
  readonly onPick?: (row: R) => void;
  readonly onHover?: (row: R | null) => void;
  readonly isPicked?: (row: R) => boolean;
  /** Content beside the filter box. */
  readonly children?: ComponentChildren;
  /** Called for every change of the filter. */
  readonly onFilter?: (words: string) => void;
}

const ROW_HEIGHT = 28;
/** Extra rows above and below the visible ones. */
const BESIDE = 8;

/**
 * The part of an address field for this table: fields have the name of the table before the value.
 */
const findField = field("find");
const sortedField = field("sorted");

function ownPart(text: string, name: string): string | null {
  return text.startsWith(`${name}|`) ? text.slice(name.length + 1) : null;
}

/** `bytes`, or `-bytes` for the largest first. */
function parseOrder(text: string): Order {
  const isDescending = text.startsWith("-");
  return { name: isDescending ? text.slice(1) : text, isDescending };
}

export function Table<R>(props: TableProps<R>) {
  const { columns, rows, name } = props;
  const words = ownPart(findField.value, name) ?? "";
  const sorted = ownPart(sortedField.value, name);
  const order = useMemo(() => (sorted ? parseOrder(sorted) : (props.order ?? null)), [sorted]);
  const setOrder = (next: Order) =>
    go({ sorted: `${name}|${next.isDescending ? "-" : ""}${next.name}` });
  const shown = useMemo(() => arranged(rows, columns, words, order), [rows, columns, words, order]);
  const change = (text: string) => {
    go({ find: text === "" ? null : `${name}|${text}` }, { replaces: true });
    props.onFilter?.(text);
  };
  const csv = () =>
    csvOf([
      columns.map((column) => column.title),
      ...shown.map((row) => columns.map((column) => column.value(row) ?? "")),
    ]);
  return (
    <div class="table-box">
      <div class="table-tools">
        {props.children}
        <div class="table-find">
          <input
            type="search"
            placeholder="Filter"
            aria-label={`Filter ${name}`}
            value={words}
            onInput={(event) => change(event.currentTarget.value)}
          />
          <span class="quiet count" aria-live="polite">
            {shown.length === rows.length
              ? formatCount(rows.length)
              : `${formatCount(shown.length)} of ${formatCount(rows.length)}`}
          </span>
          <CopyCsv text={csv} name={name} />
        </div>
      </div>
      <Body {...props} shown={shown} order={order} setOrder={setOrder} />
    </div>
  );
}

function CopyCsv({ text, name }: { text: () => string; name: string }) {
  const [said, setSaid] = useState("Copy CSV");
  const copy = async () => {
    const done = await copyText(text());
    if (!done) download(`${name}.csv`, new Blob([text()], { type: "text/csv" }));
    setSaid(done ? "Copied" : "Saved");
    setTimeout(() => setSaid("Copy CSV"), 1500);
  };
  return (
    <button type="button" class="plain" onClick={copy}>
      {said}
    </button>
  );
}

interface BodyProps<R> extends Omit<TableProps<R>, "order"> {
  readonly shown: readonly R[];
  readonly order: Order | null;
  readonly setOrder: (order: Order) => void;
}

function Body<R>(props: BodyProps<R>) {
  const { shown, columns } = props;
  const box = useRef<HTMLElement>(null);
  const { height } = useSize(box);
  const [top, setTop] = useState(0);
  useEffect(() => {
    if (box.current) box.current.scrollTop = 0;
    setTop(0);
  }, [shown.length, props.order]);
  const first = Math.max(0, Math.floor(top / ROW_HEIGHT) - BESIDE);
  const last = Math.min(shown.length, Math.ceil((top + height) / ROW_HEIGHT) + BESIDE);
  return (
    <section
      class="table-scroll"
      ref={box}
      tabIndex={0}
      aria-label={props.name}
      data-own-keys
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
    >
      <table aria-rowcount={shown.length + 1}>
        <caption class="unseen">{props.name}</caption>
        <colgroup>
          {columns.map((column) => (
            <col key={column.name} style={{ width: column.width ?? "auto" }} />
          ))}
        </colgroup>
        <Head {...props} />
        <tbody>
          <Gap rows={first} columns={columns.length} />
          {shown.slice(first, last).map((row, at) => (
            <Line key={first + at} row={row} index={first + at} table={props} />
          ))}
          <Gap rows={shown.length - last} columns={columns.length} />
        </tbody>
      </table>
    </section>
  );
}

function Head<R>({ columns, order, setOrder }: BodyProps<R>) {
  return (
    <thead>
      <tr>
        {columns.map((column) => {
          const isOrder = order?.name === column.name;
          const sorted = isOrder ? (order.isDescending ? "descending" : "ascending") : "none";
          return (
            <th
              key={column.name}
              scope="col"
              aria-sort={sorted}
              class={column.isNumber ? "number" : ""}
            >
              <button
                type="button"
                onClick={() => setOrder(nextOrder(order, column.name, column.isNumber ?? false))}
              >
                {column.title}
                <span class="sign" aria-hidden="true">
                  {isOrder ? (order.isDescending ? "▾" : "▴") : ""}
                </span>
              </button>
            </th>
          );
        })}
      </tr>
    </thead>
  );
}

function Line<R>({ row, index, table }: { row: R; index: number; table: BodyProps<R> }) {
  const { onPick, onHover, isPicked } = table;
  const pick = onPick && (() => onPick(row));
  return (
    <tr
      aria-rowindex={index + 2}
      aria-selected={isPicked?.(row)}
      class={pick ? "pickable" : ""}
      tabIndex={pick ? 0 : undefined}
      onClick={pick}
      onKeyDown={(event) => {
        if (pick && event.key === "Enter") pick();
        moveFocus(event);
      }}
      onMouseEnter={onHover && (() => onHover(row))}
      onMouseLeave={onHover && (() => onHover(null))}
    >
      {table.columns.map((column) => (
        <td key={column.name} class={cellClass(column)} title={column.hint?.(row)}>
          {column.bar && (
            <i
              class="cell-bar"
              style={{ width: `${100 * Math.min(1, Math.max(0, column.bar(row)))}%` }}
            />
          )}
          <span>
            {column.isLocation ? (
              <LocationText
                text={String((column.cell ? column.cell(row) : column.value(row)) ?? "")}
                module={column.module?.(row)}
              >
                <SourceMark location={String(column.value(row) ?? "")} />
              </LocationText>
            ) : column.keepsEnd ? (
              <bdi>{column.value(row)}</bdi>
            ) : column.cell ? (
              column.cell(row)
            ) : (
              (column.value(row) ?? "")
            )}
          </span>
        </td>
      ))}
    </tr>
  );
}

function cellClass<R>(column: Column<R>): string {
  return column.isNumber ? "number" : column.keepsEnd ? "keeps-end" : "";
}

function moveFocus(event: KeyboardEvent): void {
  const line = event.currentTarget as HTMLElement;
  const next =
    event.key === "ArrowDown"
      ? line.nextElementSibling
      : event.key === "ArrowUp"
        ? line.previousElementSibling
        : null;
  if (next instanceof HTMLElement && next.tabIndex >= 0) {
    event.preventDefault();
    next.focus();
  }
}

function Gap({ rows, columns }: { rows: number; columns: number }) {
  if (rows <= 0) return null;
  return (
    <tr aria-hidden="true" style={{ height: `${rows * ROW_HEIGHT}px` }}>
      <td colSpan={columns} />
    </tr>
  );
}
