// Every view opens every kind of recording: served, and saved in a file that makes no request.

import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { idle, launch, open, shifted, show, type Watched } from "./browser";
import { floodmark, repository, type Served, serve } from "./program";
import { CPU, folderOfRanks, LSTM, NEUMF, OOM, PLAN, RESNET } from "./recordings";

const VIEWS = [
  "overview",
  "timeline",
  "peak",
  "segments",
  "steps",
  "tensors",
  "diff",
  "ranks",
  "source",
  "advice",
] as const;
/** In these a picture is drawn whenever there is something to draw. */
const DRAWN = new Set<string>(["timeline", "peak", "tensors"]);

const ranks = folderOfRanks();
const saved = mkdtempSync(join(tmpdir(), "floodmark-saved-"));
let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(async () => {
  await browser.close();
  ranks.remove();
  rmSync(saved, { recursive: true });
});

describe.each([
  ["a recording of the CPU, with names like markup", [CPU]],
  ["a snapshot of a GPU", [LSTM]],
  ["a snapshot that ran out of memory", [OOM]],
  ["a program with a plan", [PLAN]],
  ["two snapshots", [NEUMF, RESNET]],
  ["a folder of ranks", [ranks.path]],
])("%s", (_, files) => {
  let served: Served;
  let watched: Watched;
  beforeAll(async () => {
    served = await serve(...files);
    watched = await open(browser, served.url);
  });
  afterAll(async () => {
    await watched.page.context().close();
    await served.stop();
  });

  it.each(VIEWS)("opens in %s", async (view) => {
    watched.complaints.length = 0;
    // Loaded anew: a link may lead to any view.
    await watched.page.goto("about:blank");
    await opensIn(watched.page, served.url, view);
    expect(await shifted(watched.page), "what moved while it was loaded").toBe(0);
    expect(watched.complaints).toEqual([]);
  });

  it("asks for the page, its style and script once, and else for answers alone", () => {
    const asked = watched.requests.map((url) => url.slice(served.url.length).split(/[?#]/)[0]);
    const others = asked.filter((path) => !path?.startsWith("api/"));
    expect(new Set(others)).toEqual(new Set(["", "page.css", "page.js"]));
  });
});

describe.each([
  ["a recording of the CPU, with names like markup", CPU],
  ["a snapshot that ran out of memory", OOM],
])("saved: %s", (name, file) => {
  let url: string;
  let watched: Watched;
  beforeAll(async () => {
    const page = join(saved, `${name.replace(/\W+/g, "-")}.html`);
    await floodmark("export", file, "--to", "html", "-o", page);
    url = pathToFileURL(page).href;
    watched = await open(browser, url);
    expect(await shifted(watched.page), "what moved while it was loaded").toBe(0);
  });
  afterAll(() => watched.page.context().close());

  it.each(VIEWS)("opens in %s", async (view) => {
    watched.complaints.length = 0;
    await opensIn(watched.page, url, view);
    expect(watched.complaints).toEqual([]);
  });

  it("makes no request", () => {
    expect(new Set(watched.requests.map((asked) => asked.split("#")[0]))).toEqual(new Set([url]));
  });
});

it("is small: all that the browser loads, packed", () => {
  const files = ["index.html", "page.css", "page.js"].map((name) =>
    readFileSync(repository(`crates/floodmark/page/${name}`)),
  );
  const packed = files.reduce((sum, file) => sum + gzipSync(file, { level: 9 }).length, 0);
  expect(packed).toBeLessThanOrEqual(150_000);
});

/** The view shows something, no error, no element of a name's making, and fits the window. */
async function opensIn(page: Page, url: string, view: string): Promise<void> {
  await show(page, url, `#view=${view}`);
  // What a recording has nothing for has no tab: a link to it leads to the first view.
  const shown = await page.locator(".page").getAttribute("data-view");
  const hasTab = (await page.locator(`#tab-${view}`).count()) === 1;
  expect(shown === view).toBe(hasTab);
  if (["diff", "ranks", "steps"].includes(view) && !hasTab) return;
  expect(hasTab).toBe(true);
  expect(await page.locator(".notice.problem").allInnerTexts()).toEqual([]);
  expect((await page.locator("#view").innerText()).length).toBeGreaterThan(20);
  if (DRAWN.has(view)) expect(await colours(page)).toBeGreaterThan(3);
  const { wide, high } = await page.evaluate(() => ({
    wide: document.documentElement.scrollWidth - innerWidth,
    high: document.documentElement.scrollHeight - innerHeight,
  }));
  expect(wide, "pixels to scroll sideways").toBeLessThanOrEqual(0);
  if (DRAWN.has(view)) expect(high, "pixels to scroll down").toBeLessThanOrEqual(0);
  expect(await page.locator("#view img, #view script, #view iframe").count()).toBe(0);
  expect(await page.evaluate(() => "gone" in globalThis)).toBe(false);
  await idle(page);
}

/** How many colours the largest picture has: one that is empty has its background and little else. */
async function colours(page: Page): Promise<number> {
  return page.evaluate(() => {
    const all = [...document.querySelectorAll<HTMLCanvasElement>("#view canvas")];
    const largest = all.sort((a, b) => b.width * b.height - a.width * a.height)[0];
    const data = largest?.getContext("2d")?.getImageData(0, 0, largest.width, largest.height).data;
    if (!data) return 0;
    const found = new Map<number, number>();
    new Uint32Array(data.buffer).forEach((colour) => {
      found.set(colour, (found.get(colour) ?? 0) + 1);
    });
    return [...found.values()].filter((pixels) => pixels >= 50).length;
  });
}
