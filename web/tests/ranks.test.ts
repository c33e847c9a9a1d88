// Ranks of two nodes: outliers, the grid, the lines that differ, and a folder of very many.

import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { field, idle, launch, open, show, type Watched } from "./browser";
import { type Served, serve } from "./program";
import { NODES } from "./recordings";

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

describe("eight ranks of two nodes", () => {
  let served: Served;
  let watched: Watched;
  let page: Page;
  beforeAll(async () => {
    served = await serve(NODES);
    watched = await open(browser, served.url);
    page = watched.page;
  });
  afterAll(async () => {
    await page.context().close();
    await served.stop();
  });

  it("opens here, and compares an outlier with the median rank", async () => {
    expect(await page.locator(".page").getAttribute("data-view")).toBe("ranks");
    const links = page.getByRole("link", { name: /^compare with the median rank \(rank \d\)$/ });
    expect(await links.count()).toBeGreaterThan(0);
    await links.first().click();
    await idle(page);
    expect([await field(page, "view"), await field(page, "b")]).toEqual(["diff", "4"]);
  });

  it("goes through the grid with the keys, and opens a rank", async () => {
    await show(page, served.url, "#view=ranks&ranks=grid");
    const said = page.locator(".rank-picture [aria-live]");
    await page.keyboard.press("ArrowRight");
    await expect.poll(() => said.innerText()).toMatch(/^rank 0 on gpu000: /);
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowDown");
    await expect.poll(() => said.innerText()).toMatch(/^rank 5 on gpu001: /);
    await page.keyboard.press("Enter");
    await idle(page);
    expect([await field(page, "view"), await field(page, "trace")]).toEqual(["timeline", "5"]);
    await page.goBack();
    await idle(page);
    expect(await page.locator(".page").getAttribute("data-view")).toBe("ranks");
  });

  it("lists the lines that differ, and paints the ranks by one of them", async () => {
    await show(page, served.url, "#view=ranks");
    await page.getByRole("button", { name: "Lines that differ" }).click();
    await idle(page);
    const rows = page.locator("tbody tr.pickable");
    expect(await rows.first().innerText()).toContain("checkpoint.py:31 (gather)");
    const cache = rows.filter({ hasText: "cache.py:12 (remember)" });
    expect(await cache.innerText()).toContain("rank 5");
    await cache.click();
    await idle(page);
    expect(await field(page, "line")).toContain("cache.py:12");
    await page.getByRole("img", { name: /^cache\.py:12 \(remember\): from 0 B to / }).waitFor();
    await page.getByRole("button", { name: "Show the peaks" }).click();
    expect(await field(page, "line")).toBeNull();
  });

  it("did all that without a complaint", () => {
    expect(watched.complaints).toEqual([]);
  });
});

it("shows a folder of very many ranks as a grid, and more outliers at a click", async () => {
  const folder = mkdtempSync(join(tmpdir(), "floodmark-many-ranks-"));
  for (let rank = 0; rank < 96; rank += 1) {
    // Twelve gather a checkpoint. The files are of other ranks, so no node is known.
    const from = rank % 8 === 0 ? 0 : 1 + (rank % 3);
    const file = join(NODES, `rank-000${from}.flood`);
    copyFileSync(file, join(folder, `rank-${String(rank).padStart(4, "0")}.flood`));
  }
  const served = await serve(folder);
  const { page, complaints } = await open(browser, served.url);
  await page.getByRole("button", { name: "Grid", pressed: true }).waitFor();
  const outliers = page.getByRole("list", { name: "Ranks that stand out" }).getByRole("listitem");
  expect(await outliers.count()).toBe(3);
  await page.getByRole("button", { name: "9 more" }).click();
  await expect.poll(() => outliers.count()).toBe(12);
  expect(await field(page, "outliers")).toBe("all");
  expect(complaints).toEqual([]);
  await page.context().close();
  await served.stop();
  rmSync(folder, { recursive: true });
});
