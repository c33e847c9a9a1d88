import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { unpacked } from "./open";
import { questionText } from "./questions";
import { NotSaved } from "./source";
import { StoredSource } from "./stored";

const about = { trace: 0, device: "cuda:0" };

function page() {
  return new StoredSource({
    "api/traces": {
      moments: { 0: { "cuda:0": [0, 1.5, 3] } },
      traces: [{ id: 0, summary: { seconds: 3 } }],
    },
    "api/lifetimes?trace=0&device=cuda:0&from=0&to=3": { rows: [] },
    "api/timeline/tile?trace=0&device=cuda:0&by=category&level=0&tile=0": { level: 0, tile: 0 },
    "api/timeline/tile?by=category&device=cuda%3A0&level=1&tile=1&trace=0": { level: 1, tile: 1 },
    "api/report?trace=0&device=cuda:0&by=line&at=1.5": { at: { seconds: 1.5 } },
    "api/report?trace=0&device=cuda:0&by=line&at=peak": { at: { seconds: 2 } },
    "api/steps?trace=0&device=cuda:0": { error: "there are no steps", hint: "say where they end" },
  });
}

describe("a saved page", () => {
  it("finds an answer whatever the order of the question's fields", async () => {
    const query = { ...about, by: "category", level: 1, tile: 1 };
    expect(await page().ask("timeline/tile", query)).toEqual({ level: 1, tile: 1 });
  });

  it("goes to the coarser tile where the finer one was not saved", async () => {
    const query = { ...about, by: "category", level: 4, tile: 15 };
    expect(await page().ask("timeline/tile", query)).toEqual({ level: 1, tile: 1 });
    expect(await page().ask("timeline/tile", { ...query, tile: 2 })).toEqual({ level: 0, tile: 0 });
  });

  it("returns the nearest saved time", async () => {
    const found = await page().ask("report", { ...about, by: "line", at: 1.2, top: 5000 });
    expect(found.at.seconds).toBe(1.5);
    expect((await page().ask("report", { ...about, by: "line", at: "peak" })).at.seconds).toBe(2);
  });

  it("answers for the whole where a window was not saved", async () => {
    const query = { ...about, from: 1, to: 2, top: 400 };
    expect(await page().ask("lifetimes", query)).toEqual({ rows: [] });
  });

  it("passes on what the program refused, and says what was not saved", async () => {
    await expect(page().ask("steps", about)).rejects.toMatchObject({
      message: "there are no steps",
      hint: "say where they end",
    });
    await expect(page().ask("bands", about)).rejects.toBeInstanceOf(NotSaved);
  });
});

it("a question is its path and its fields", () => {
  expect(questionText("report", { ...about, by: "line", at: "peak" })).toBe(
    "report?trace=0&device=cuda%3A0&by=line&at=peak",
  );
  expect(questionText("traces", {})).toBe("traces");
});

it("answers are unpacked as the program packs them", async () => {
  const packed = gzipSync('{"api/ranks":{"name":"Grüße"}}').toString("base64");
  expect(await unpacked(packed)).toEqual({ "api/ranks": { name: "Grüße" } });
});
