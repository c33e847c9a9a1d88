// @vitest-environment happy-dom
import { expect, it } from "vitest";
import { StoredSource } from "../api/stored";
import { open } from "./recording";
import { TileStore } from "./tile_store";

const tile = (level: number, number: number) => ({
  level,
  tile: number,
  from: (8 * number) / 2 ** level,
  to: (8 * (number + 1)) / 2 ** level,
});

it("is complete when all that is wanted came, and knows the length it was cut from", async () => {
  const about = { trace: 0, device: "cpu", by: "line" };
  const name = (level: number, number: number) =>
    `api/timeline/tile?trace=0&device=cpu&by=line&level=${level}&tile=${number}`;
  await open(
    new StoredSource({
      "api/traces": { traces: [] },
      [name(0, 0)]: tile(0, 0),
      [name(2, 1)]: tile(2, 1),
    }),
  );
  const store = new TileStore("timeline/tile", about);
  expect([store.isEmpty, store.length]).toEqual([true, 0]);
  store.want([
    { level: 0, tile: 0 },
    { level: 2, tile: 1 },
  ]);
  expect(store.isComplete).toBe(false);
  await expect.poll(() => store.isComplete).toBe(true);
  expect([store.isEmpty, store.length]).toEqual([false, 8]);
  // Another window is wanted: what is there stays, and it is not complete until the rest came.
  store.want([{ level: 2, tile: 3 }]);
  expect(store.isComplete).toBe(false);
  await expect.poll(() => store.isComplete).toBe(true);
});
