// What each view says of real recordings, and where its clicks and keys lead.

import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { field, idle, launch, open, range, show, type Watched } from "./browser";
import { type Served, serve } from "./program";
import { CPU, folderOfRanks, LSTM, NEUMF, RESNET } from "./recordings";

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

describe("three recordings of a GPU", () => {
  let served: Served;
  let watched: Watched;
  let page: Page;
  beforeAll(async () => {
    served = await serve(RESNET, NEUMF, LSTM);
    watched = await open(browser, served.url);
    page = watched.page;
  });
  afterAll(async () => {
    await page.context().close();
    await served.stop();
  });

  it("maps segments, lists as many, and opens the card of a block", async () => {
    await show(page, served.url, "#view=segments");
    const text =
      (await page.getByRole("img", { name: /^\d+ segments of/ }).getAttribute("aria-label")) ?? "";
    const count = Number.parseInt(text, 10);
    expect(count).toBeGreaterThan(3);
    await page.keyboard.press("n");
    await page.keyboard.press("Enter");
    await idle(page);
    await page.getByRole("region", { name: "Allocation", exact: true }).waitFor();
    expect(Number(await field(page, "allocation"))).toBeGreaterThanOrEqual(0);
    await page.keyboard.press("Escape");
    await page.getByRole("region", { name: "Fragmentation" }).waitFor();
    await page.getByRole("button", { name: "Table" }).click();
    await idle(page);
    expect(await page.locator("table").getAttribute("aria-rowcount")).toBe(String(count + 1));
  });

  it("moves the moment of the segments", async () => {
    await show(page, served.url, "#view=segments");
    const sentence = page.locator(".segments .view-tools p");
    expect(await sentence.innerText()).toMatch(/^Peak of cuda:0/);
    await page.getByRole("button", { name: "End" }).click();
    await idle(page);
    expect(await sentence.innerText()).toMatch(/^End on cuda:0/);
  });

  it("opens a step in the timeline", async () => {
    await show(page, served.url, "#view=steps");
    const box = await page.locator(".step-picture canvas").boundingBox();
    if (!box) throw new Error("there is no picture");
    await page.mouse.click(box.x + box.width * 0.52, box.y + box.height * 0.5);
    await idle(page);
    expect(await field(page, "view")).toBe("timeline");
    const window = await range(page);
    expect(window && window.to > window.from).toBe(true);
  });

  it("draws lifetimes, filters them, and opens the card of a tensor", async () => {
    await show(page, served.url, "#view=tensors");
    await page.keyboard.press("p");
    await idle(page);
    expect(await page.locator(".scrolled").evaluate((box) => box.scrollTop)).toBeGreaterThan(0);
    await page.keyboard.press("n");
    await page.keyboard.press("n");
    await page.keyboard.press("Enter");
    await idle(page);
    await page.getByLabel(/^Filter tensors/).fill("no such tensor");
    await page.getByText("Nothing here has “no such tensor”").waitFor();
    await page.getByLabel(/^Filter tensors/).fill("");
    await page.getByRole("button", { name: "Table" }).click();
    await idle(page);
    await page.locator("tbody tr.pickable").first().click();
    await idle(page);
    await page.getByRole("region", { name: "Allocation", exact: true }).waitFor();
  });

  it("says what grew, and the opposite when the sides are swapped", async () => {
    await show(page, served.url, "#view=diff&by=category&a=0&b=1");
    const first = await page.locator(".diff p").first().innerText();
    await page.getByRole("button", { name: /Swap/ }).click();
    await idle(page);
    const second = await page.locator(".diff p").first().innerText();
    expect([first, second].map((text) => /rose by|fell by/.exec(text)?.[0]).sort()).toEqual([
      "fell by",
      "rose by",
    ]);
    const changes = await page.locator("tbody td:first-child").allInnerTexts();
    expect(changes.length).toBeGreaterThan(0);
    expect(changes.every((text) => /^[+−]/.test(text.trim()) || text.trim() === "0 B")).toBe(true);
  });

  it("opens a rank in the timeline", async () => {
    await show(page, served.url, "#view=ranks");
    expect(await page.locator("tbody tr.pickable").count()).toBe(3);
    await page.locator("tbody tr.pickable").nth(2).click();
    await idle(page);
    expect(await field(page, "view")).toBe("timeline");
    expect(await field(page, "trace")).toBe("2");
  });

  it("shows what to change, and copies what to type", async () => {
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await show(page, served.url, "#view=advice&trace=0");
    const causes = page.getByRole("region", { name: "What fills the memory at the peak" });
    expect(await causes.locator("li").count()).toBeGreaterThan(2);
    const shares = (await causes.locator(".share").allInnerTexts()).map(Number.parseFloat);
    expect(shares.reduce((sum, share) => sum + share, 0)).toBeCloseTo(100, 0);
    const rows = page.locator(".sweep tbody tr");
    expect(await rows.count()).toBeGreaterThan(5);
    await rows.nth(1).getByRole("button").click();
    const copied = () => page.evaluate(() => navigator.clipboard.readText());
    await expect.poll(copied).toMatch(/^export PYTORCH_CUDA_ALLOC_CONF=\w+/);
  });

  it("did all that without a complaint", () => {
    expect(watched.complaints).toEqual([]);
  });
});

it("opens a folder of ranks on the ranks, and compares one that stands out", async () => {
  const ranks = folderOfRanks();
  const served = await serve(ranks.path);
  const { page } = await open(browser, served.url);
  expect(await page.locator(".page").getAttribute("data-view")).toBe("ranks");
  await page
    .getByRole("link", { name: /^compare with the median rank/ })
    .first()
    .click();
  await idle(page);
  expect([await field(page, "view"), await field(page, "b")]).toEqual(["diff", "2"]);
  expect(await page.locator(".diff p").first().innerText()).toMatch(/rose by|fell by/);
  await page.context().close();
  await served.stop();
  ranks.remove();
});

describe("one recording of a CPU, with names like markup", () => {
  let served: Served;
  let watched: Watched;
  let page: Page;
  beforeAll(async () => {
    served = await serve(CPU);
    watched = await open(browser, served.url);
    page = watched.page;
  });
  afterAll(async () => {
    await page.context().close();
    await served.stop();
  });

  it("marks and lists the line that keeps more in every step", async () => {
    await show(page, served.url, "#view=steps");
    const shown = await page.locator("tbody").innerText();
    expect(shown).toContain("script>.py:3 (keep)");
    expect(shown).toContain("<script>gone=2<");
    await page.locator("tbody tr.pickable").first().click();
    await idle(page);
    expect([await field(page, "view"), await field(page, "by")]).toEqual(["timeline", "line"]);
  });

  it.each([
    ["segments", "no segments"],
    ["advice", "no caching allocator"],
  ])("says in %s what is missing, and a way out", async (view, words) => {
    await show(page, served.url, `#view=${view}`);
    expect(await page.locator("#view").innerText()).toContain(words);
    expect(await page.locator(".notice.problem").count()).toBe(0);
  });

  it("has no tabs for views that compare recordings", async () => {
    const names = await page.getByRole("tab").allInnerTexts();
    expect(names).toContain("Timeline");
    expect(names.filter((name) => ["Diff", "Ranks"].includes(name))).toEqual([]);
  });

  it("says the chosen time above the timeline", async () => {
    await show(page, served.url, "#view=timeline&at=0.001");
    await expect
      .poll(() => page.locator(".timeline-head .sentence").innerText())
      .toMatch(/^Memory of cpu: .* at 0\.001 s/);
  });

  it("shows names as text", async () => {
    await show(page, served.url, "#view=tensors&tensors=table");
    expect(await page.locator("tbody").innerText()).toContain('<img src=x onerror="gone=1">');
    for (const view of ["timeline", "peak", "steps", "tensors", "advice"]) {
      await show(page, served.url, `#view=${view}`);
      expect(await page.locator("#view img, #view script").count()).toBe(0);
    }
    expect(await page.evaluate(() => "gone" in globalThis)).toBe(false);
  });

  it("did all that without a complaint", () => {
    expect(watched.complaints).toEqual([]);
  });
});
