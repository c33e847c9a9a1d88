// One picture of each view, compared with the one that is committed. `UPDATE_PICTURES=1` makes them anew: look at them.

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { idle, launch, newPage } from "./browser";
import { committed, difference, keep, smallPicture, withoutTexts } from "./pictures";
import { type Served, serve } from "./program";
import { folderOfRanks, LSTM, OOM, PLAN, RESNET } from "./recordings";

/** Texts of another width move what stands beside them; another picture is further away than this by far. */
const MOST_MEAN = 6;
const MOST_CELLS = 0.06;

const ranks = folderOfRanks();
let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(async () => {
  await browser.close();
  ranks.remove();
});

describe.each([
  [
    "two snapshots",
    [RESNET, LSTM],
    ["overview", "timeline", "peak", "segments", "steps", "tensors", "source", "diff", "advice"],
  ],
  ["a folder of ranks", [ranks.path], ["ranks"]],
  ["a snapshot that ran out of memory", [OOM], ["oom"]],
  ["a program with a plan", [PLAN], ["plan"]],
] as const)("%s", (_, files, views) => {
  let served: Served;
  beforeAll(async () => {
    served = await serve(...files);
  });
  afterAll(() => served.stop());

  it.each(views)("looks like its picture in %s", async (view) => {
    const found = await picture(view, "light");
    if (process.env.UPDATE_PICTURES) keep(view, found);
    const wanted = committed(view);
    if (!wanted) throw new Error(`there is no picture of ${view}`);
    const { mean, cells } = await difference(browser, found, wanted);
    const isSame = mean <= MOST_MEAN && cells <= MOST_CELLS;
    const where = isSame ? "" : keep(`${view}.found`, found);
    expect(isSame, `mean ${mean}, cells ${cells}; see ${where}`).toBe(true);
  });

  it("has another picture in the dark: the comparison can fail", async () => {
    const wanted = committed(views[0]);
    if (!wanted) throw new Error(`there is no picture of ${views[0]}`);
    const { mean } = await difference(browser, await picture(views[0], "dark"), wanted);
    expect(mean).toBeGreaterThan(MOST_MEAN * 3);
  });

  async function picture(view: string, colorScheme: "light" | "dark"): Promise<Buffer> {
    const page = await newPage(browser, { colorScheme });
    await withoutTexts(page);
    await page.goto(`${served.url}#view=${view}`);
    await idle(page);
    const found = await smallPicture(browser, page);
    await page.context().close();
    return found;
  }
});
