// How each view looks, compared with a picture that somebody has looked at.
//
// `FLOODMARK_UPDATE_PICTURES=1 npm run browser -- pictures` writes them anew: look at them before they are committed.
// Fonts and their smoothing differ between machines, so a few pixels may differ; a chart that is not drawn, a
// table without rows or a colour that went elsewhere is more than that.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { idle, launch, open, type Watched } from "./browser";
import { difference } from "./compare";
import { repository, type Served, serve } from "./program";

const FOLDER = resolve(import.meta.dirname, "pictures");
const UPDATES = process.env.FLOODMARK_UPDATE_PICTURES !== undefined;
/** The share of pixels that may be clearly different. */
const MOST = 0.02;

const zoo = (name: string) => repository(`fixtures/recordings/zoo/${name}.pickle.gz`);
interface Shown {
  readonly recordings: readonly string[];
  readonly views: readonly (readonly [string, string])[];
}

const SETS: readonly Shown[] = [
  {
    recordings: [repository("fixtures/page/hostile.flood")],
    views: [
      ["timeline", "#view=timeline"],
      ["peak", "#view=peak"],
      ["steps", "#view=steps"],
      ["tensors", "#view=tensors"],
    ],
  },
  {
    recordings: ["resnet18_fp32", "neumf", "lstm"].map(zoo),
    views: [
      ["segments", "#view=segments"],
      ["advice", "#view=advice"],
      ["diff", "#view=diff&by=line"],
      ["ranks", "#view=ranks"],
    ],
  },
];

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

describe.each(SETS)("$recordings.length recordings", ({ recordings, views }) => {
  let served: Served;
  let watched: Watched;
  beforeAll(async () => {
    served = await serve(...recordings);
    watched = await open(browser, served.url, { colorScheme: "light", deviceScaleFactor: 1 });
  });
  afterAll(async () => {
    await watched.page.context().close();
    served.stop();
  });

  it.each(views)("%s looks as it did", async (name, hash) => {
    const { page } = watched;
    await page.goto(`${served.url}${hash}`);
    await idle(page);
    const seen = await page.locator("#view").screenshot({ animations: "disabled" });
    const path = resolve(FOLDER, `${name}.png`);
    if (UPDATES) {
      mkdirSync(FOLDER, { recursive: true });
      writeFileSync(path, seen);
      return;
    }
    expect(existsSync(path), `${path} is missing`).toBe(true);
    const { share, sizes } = await difference(browser, readFileSync(path), seen);
    if (share > MOST) writeFileSync(resolve(FOLDER, `${name}.seen.png`), seen);
    expect(share, `${name} (${sizes}) differs; see ${name}.seen.png`).toBeLessThanOrEqual(MOST);
  });
});
