// Ranks as a grid: nodes from left to right, the ranks of a node below each other, coloured by the
// distance to the median.

import { formatBytes } from "../../base/bytes";
import { channels, type Inks } from "../../base/colours";
import { fitted, type Pen, type Size } from "../../render/pen";

export interface GridRank {
  readonly node: number | null;
  readonly local_rank: number | null;
}

export interface GridCell {
  readonly column: number;
  readonly row: number;
  /** The rank, by index in the answer. */
  readonly rank: number;
}

export interface Grid {
  readonly cells: readonly GridCell[];
  readonly columns: number;
  readonly rows: number;
  /** The labels below the columns. */
  readonly names: readonly string[];
  /** Whether the rows are local ranks. */
  readonly hasNodes: boolean;
}

/** The height of a column if nodes are unknown. */
const RANKS_OF_COLUMN = 8;

export function rankGrid(ranks: readonly GridRank[], nodes: readonly string[]): Grid {
  const hasNodes = nodes.length > 0;
  const cells: GridCell[] = [];
  const taken = new Set<string>();
  const used = new Map<number, number>();
  ranks.forEach((rank, at) => {
    const column = hasNodes ? (rank.node ?? 0) : Math.floor(at / RANKS_OF_COLUMN);
    const count = used.get(column) ?? 0;
    let row = hasNodes ? (rank.local_rank ?? count) : at % RANKS_OF_COLUMN;
    // A rank with two devices has two cells.
    while (taken.has(`${column} ${row}`)) row += 1;
    taken.add(`${column} ${row}`);
    used.set(column, count + 1);
    cells.push({ column, row, rank: at });
  });
  const columns = hasNodes ? nodes.length : Math.ceil(ranks.length / RANKS_OF_COLUMN);
  const names = hasNodes
    ? nodes
    : Array.from({ length: columns }, (_, column) => String(column * RANKS_OF_COLUMN));
  const rows = Math.max(1, ...cells.map((cell) => cell.row + 1));
  return { cells, columns, rows, names, hasNodes };
}

/** The neighbour of a cell, in steps of columns and rows; the same cell if there is none. */
export function cellBeside(grid: Grid, rank: number, columns: number, rows: number): number {
  const here = grid.cells[rank];
  if (!here) return rank;
  const there = grid.cells.find(
    (cell) => cell.column === here.column + columns && cell.row === here.row + rows,
  );
  return there?.rank ?? rank;
}

/** From -1, the furthest below the median, to 1, the furthest above it. */
export function heat(value: number, median: number, furthest: number): number {
  return furthest > 0 ? Math.max(-1, Math.min(1, (value - median) / furthest)) : 0;
}

export interface GridPicture {
  readonly grid: Grid;
  /** By index in the answer. */
  readonly values: readonly number[];
  readonly isOutlier: readonly boolean[];
  readonly median: number;
  readonly chosen: number | null;
}

const LEFT = 86;
const TOP = 30;
const RIGHT = 12;
const BOTTOM = 24;
/** The largest useful size of a cell. */
const LARGEST = { width: 90, height: 46 };

function layout(size: Size, grid: Grid): { pitchX: number; pitchY: number } {
  return {
    pitchX: Math.min(LARGEST.width, (size.width - LEFT - RIGHT) / Math.max(1, grid.columns)),
    pitchY: Math.min(LARGEST.height, (size.height - TOP - BOTTOM) / grid.rows),
  };
}

/** The rank at a point of the picture. */
export function cellAt(grid: Grid, size: Size, x: number, y: number): number | null {
  const { pitchX, pitchY } = layout(size, grid);
  const column = Math.floor((x - LEFT) / pitchX);
  const row = Math.floor((y - TOP) / pitchY);
  return grid.cells.find((cell) => cell.column === column && cell.row === row)?.rank ?? null;
}

/** The middle of a rank's cell, for tests and tooltips. */
export function cellMiddle(grid: Grid, size: Size, rank: number): { x: number; y: number } {
  const { pitchX, pitchY } = layout(size, grid);
  const cell = grid.cells[rank] ?? { column: 0, row: 0 };
  return { x: LEFT + (cell.column + 0.5) * pitchX, y: TOP + (cell.row + 0.5) * pitchY };
}

export function drawGrid(pen: Pen, size: Size, inks: Inks, picture: GridPicture): void {
  const { grid, values, median } = picture;
  const { pitchX, pitchY } = layout(size, grid);
  const furthest = Math.max(0, ...values.map((value) => Math.abs(value - median)));
  const gapX = pitchX > 6 ? 1.5 : pitchX > 3 ? 0.5 : 0;
  const gapY = pitchY > 6 ? 1.5 : 0;
  for (const cell of grid.cells) {
    const [x, y] = [LEFT + cell.column * pitchX, TOP + cell.row * pitchY];
    const colour = heatColour(inks, heat(values[cell.rank] ?? 0, median, furthest));
    pen.rect(x, y, Math.max(1, pitchX - gapX), Math.max(1, pitchY - gapY), colour);
    if (picture.isOutlier[cell.rank] && pitchX >= 8 && pitchY >= 12)
      pen.text(x + (pitchX - gapX) / 2, y + pitchY / 2, "!", {
        fill: inks.panel,
        align: "middle",
        baseline: "middle",
        isBold: true,
        size: 13,
      });
    if (cell.rank === picture.chosen)
      pen.outline(x - 1, y - 1, pitchX - gapX + 2, pitchY - gapY + 2, {
        stroke: inks.ink,
        width: 2,
      });
  }
  drawNames(pen, inks, grid, pitchX, pitchY);
  drawScale(pen, inks, median, furthest);
}

function drawNames(pen: Pen, inks: Inks, grid: Grid, pitchX: number, pitchY: number): void {
  const style = { fill: inks.quiet, align: "middle" } as const;
  const widest = Math.max(...grid.names.slice(0, 200).map((name) => pen.measure(name)), 10);
  const every = Math.max(1, Math.ceil((Math.min(widest, 80) + 12) / pitchX));
  const y = TOP + grid.rows * pitchY + 16;
  grid.names.forEach((name, column) => {
    if (column % every !== 0) return;
    pen.text(LEFT + (column + 0.5) * pitchX, y, fitted(pen, name, every * pitchX - 6), style);
  });
  const under = grid.hasNodes ? "node" : "rank";
  pen.text(LEFT - 8, y, under, { fill: inks.quiet, align: "end" });
  const title = grid.hasNodes ? "local rank" : "rank +";
  const rowsEvery = Math.max(1, Math.ceil(15 / pitchY));
  for (let row = 0; row < grid.rows; row += rowsEvery) {
    pen.text(LEFT - 8, TOP + (row + 0.5) * pitchY, row === 0 ? `${title} 0` : String(row), {
      fill: inks.quiet,
      align: "end",
      baseline: "middle",
    });
  }
}

function drawScale(pen: Pen, inks: Inks, median: number, furthest: number): void {
  const y = TOP - 20;
  let x = LEFT;
  const say = (text: string) => {
    pen.text(x, y + 9, text, { fill: inks.quiet });
    x += pen.measure(text) + 8;
  };
  say(`−${formatBytes(furthest)}`);
  for (let step = -6; step <= 6; step += 1) {
    pen.rect(x, y, 12, 10, heatColour(inks, step / 6));
    x += 12;
  }
  x += 8;
  say(`+${formatBytes(furthest)} from the median of ${formatBytes(median)}`);
}

export function heatColour(inks: Inks, share: number): string {
  const to = share >= 0 ? inks.grew : inks.shrank;
  const [from, end] = [channels(inks.freeFill), channels(to)];
  // The root makes small distances visible.
  const part = Math.sqrt(Math.abs(share));
  const mixed = from.map((value, at) => Math.round(value + ((end[at] ?? 0) - value) * part));
  return `#${mixed.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}
