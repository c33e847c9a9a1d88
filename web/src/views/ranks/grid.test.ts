import { describe, expect, it } from "vitest";
import { DARK, LIGHT } from "../../base/colours";
import { cellAt, cellBeside, cellMiddle, heat, heatColour, rankGrid } from "./grid";

const SIZE = { width: 1000, height: 300 };

describe("the grid of ranks", () => {
  const four = [0, 1, 2, 3].map((at) => ({ node: at >> 1, local_rank: at & 1 }));

  it("has a column for each node and a row for each local rank", () => {
    const grid = rankGrid(four, ["a", "b"]);
    expect([grid.columns, grid.rows]).toEqual([2, 2]);
    expect(grid.cells[3]).toEqual({ column: 1, row: 1, rank: 3 });
  });

  it("keeps the place of a rank that is missing", () => {
    const grid = rankGrid([{ node: 0, local_rank: 3 }], ["a"]);
    expect(grid.cells[0]?.row).toBe(3);
  });

  it("has columns of eight where nodes are unknown", () => {
    const grid = rankGrid(Array(20).fill({ node: null, local_rank: null }), []);
    expect([grid.columns, grid.rows, grid.names]).toEqual([3, 8, ["0", "8", "16"]]);
  });

  it("has two cells for a rank with two devices", () => {
    const grid = rankGrid([four[0], four[0]] as typeof four, ["a"]);
    expect(grid.cells.map((cell) => cell.row)).toEqual([0, 1]);
  });

  it("finds a rank where it is drawn, and the one beside it", () => {
    const grid = rankGrid(four, ["a", "b"]);
    const { x, y } = cellMiddle(grid, SIZE, 2);
    expect(cellAt(grid, SIZE, x, y)).toBe(2);
    expect(cellAt(grid, SIZE, 2, 2)).toBeNull();
    expect(cellBeside(grid, 2, 0, 1)).toBe(3);
    expect(cellBeside(grid, 2, 1, 0)).toBe(2);
  });
});

it("colours by the distance from the median, to both sides", () => {
  expect([heat(15, 10, 5), heat(5, 10, 5), heat(10, 10, 0)]).toEqual([1, -1, 0]);
  for (const inks of [LIGHT, DARK])
    expect([heatColour(inks, 1), heatColour(inks, -1), heatColour(inks, 0)]).toEqual([
      inks.grew,
      inks.shrank,
      inks.freeFill,
    ]);
});
