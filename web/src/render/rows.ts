// Filters and sorts the rows of a table.

export type Cell = string | number;

/** The values of a column. */
export interface ColumnValues<R> {
  readonly name: string;
  /** The value for sorting, filtering and export. */
  readonly value: (row: R) => Cell | null;
  /** The text that the filter searches, if it differs from the value. */
  readonly searched?: (row: R) => string;
}

export interface Order {
  readonly name: string;
  readonly isDescending: boolean;
}

/** The rows with every word of `words` in some column, sorted stably. */
export function arranged<R>(
  rows: readonly R[],
  columns: readonly ColumnValues<R>[],
  words: string,
  order: Order | null,
): R[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const found = wanted.length === 0 ? [...rows] : rows.filter((row) => has(row, columns, wanted));
  const column = order && columns.find((one) => one.name === order.name);
  if (!order || !column) return found;
  const sign = order.isDescending ? -1 : 1;
  return found.sort((one, other) => sign * compared(column.value(one), column.value(other)));
}

/** The order after a click on a column's title: numbers descending, texts ascending first. */
export function nextOrder(present: Order | null, name: string, isNumber: boolean): Order {
  if (present?.name === name) return { name, isDescending: !present.isDescending };
  return { name, isDescending: isNumber };
}

function has<R>(row: R, columns: readonly ColumnValues<R>[], wanted: readonly string[]): boolean {
  const text = columns
    .map((column) => column.searched?.(row) ?? String(column.value(row) ?? ""))
    .join("\n")
    .toLowerCase();
  return wanted.every((word) => text.includes(word));
}

function compared(one: Cell | null, other: Cell | null): number {
  if (one === null || other === null) return (one === null ? -1 : 0) + (other === null ? 1 : 0);
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one).localeCompare(String(other), "en", { numeric: true });
}
