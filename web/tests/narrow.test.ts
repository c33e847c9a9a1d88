// A page on a phone: one column, no wider than the screen, and as long as it needs to be.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { launch, open, show, type Watched } from "./browser";
import { floodmark } from "./program";
import { OOM } from "./recordings";

const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
const VIEWS = [
  "oom",
  "overview",
  "timeline",
  "peak",
  "segments",
  "steps",
  "tensors",
  "source",
  "advice",
];

let browser: Browser;
let watched: Watched;
let address: string;
const folder = mkdtempSync(join(tmpdir(), "floodmark-narrow-"));
beforeAll(async () => {
  browser = await launch();
  const file = join(folder, "page.html");
  await floodmark("export", OOM, "--to", "html", "-o", file);
  address = pathToFileURL(file).href;
  watched = await open(browser, address, PHONE);
});
afterAll(async () => {
  await browser.close();
  rmSync(folder, { recursive: true });
});

it.each(VIEWS)("%s is as wide as the screen", async (view) => {
  const { page } = watched;
  await show(page, address, `#view=${view}`);
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(390);
  const tab = page.locator(`#tab-${view}`);
  const box = await tab.boundingBox();
  expect(box && box.x >= 0 && box.x + box.width <= 390, "its tab is in sight").toBe(true);
});

it("has all of the reason, one part below the other", async () => {
  const { page } = watched;
  await show(page, address, "#view=oom");
  const parts = page.locator(".oom .panel");
  const boxes = await Promise.all((await parts.all()).map((part) => part.boundingBox()));
  expect(boxes.length).toBeGreaterThanOrEqual(5);
  boxes.slice(1).forEach((box, at) => {
    const above = boxes[at];
    expect(box && above && box.y >= above.y + above.height, `part ${at + 1}`).toBe(true);
  });
  expect(await page.evaluate(() => document.documentElement.scrollHeight)).toBeGreaterThan(844);
});

it("did all that without a complaint", () => {
  expect(watched.complaints).toEqual([]);
});
