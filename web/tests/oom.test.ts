// A recording with a failed allocation says why, without a click; the way to the fix is one click.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { field, idle, launch, open, range, shifted, show, type Watched } from "./browser";
import { floodmark, type Served, serve } from "./program";
import { NEUMF, OOM } from "./recordings";

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

describe("a snapshot that ran out of memory", () => {
  let served: Served;
  let watched: Watched;
  let page: Page;
  let told: { why: string; at: { seconds: number } };
  beforeAll(async () => {
    told = JSON.parse(await floodmark("oom", OOM, "--json"));
    served = await serve(OOM);
    watched = await open(browser, served.url);
    page = watched.page;
  });
  afterAll(async () => {
    await page.context().close();
    await served.stop();
  });

  it("opens on the reason, with the words of the terminal", async () => {
    expect(await shifted(page), "what moved while it was loaded").toBe(0);
    expect(await page.locator(".page").getAttribute("data-view")).toBe("oom");
    const [reason = "", ...sentence] = told.why.split(". ");
    expect(await page.locator("#oom-why").innerText()).toBe(`Out of memory: ${reason}`);
    expect(await page.locator(".oom-why .cause").innerText()).toBe(`${sentence.join(". ")}.`);
    const bar = page.getByRole("img", { name: /^Memory at the failed allocation: / });
    expect(await bar.getAttribute("aria-label")).toMatch(/allocated.*reserved.*limit.*requested$/);
    expect(await bar.locator(".oom-limit").innerText()).toMatch(/^limit.*: [\d.]+ [GM]iB$/);
  });

  it("says what fills the memory, with the words and bytes of advise", async () => {
    const { causes } = JSON.parse(await floodmark("advise", OOM, "--json")) as {
      causes: { name: string; bytes: number }[];
    };
    const rows = page.getByRole("region", { name: /^What fills the memory/ }).locator("li");
    expect(await rows.locator(".cause-name").allInnerTexts()).toEqual(
      causes.map((cause) => cause.name),
    );
    const widths = await rows
      .locator(".cause-bar i")
      .evaluateAll((bars) => bars.map((bar) => bar.getBoundingClientRect().width));
    expect([...widths].sort((one, other) => other - one)).toEqual(widths);
    expect(await rows.first().innerText()).toMatch(/[\d.]+ [KMG]iB\s+[\d.]+ %/);
    expect(await page.locator(".causes .failed").count()).toBe(1);
  });

  it("proves what fits, and lists who owns the memory", async () => {
    const proofs = page.locator(".oom-proofs li");
    expect(await proofs.count()).toBeGreaterThan(1);
    expect(await proofs.first().innerText()).toContain("✓ succeeds");
    expect(await page.locator(".oom-proofs").innerText()).toMatch(
      /with [\d.]+ [KMG]iB more memory/,
    );
    const lines = page.getByRole("region", { name: "Live allocations, by line" });
    expect(await lines.locator("li").first().innerText()).toMatch(/[\d.]+ [KMG]iB[\s\S]*%/);
    await page.getByRole("region", { name: "Live allocations, by module" }).waitFor();
  });

  it("leads to the advice with one click, and back", async () => {
    await page.getByRole("link", { name: "all advice and allocator settings" }).click();
    await idle(page);
    expect(await field(page, "view")).toBe("advice");
    await page.goBack();
    await idle(page);
    expect(await page.locator(".page").getAttribute("data-view")).toBe("oom");
  });

  it("draws the limit and the request in the timeline; a click on the request says why", async () => {
    await show(page, served.url, "#view=timeline");
    const limit = page.getByLabel("Limit");
    expect(await limit.isChecked()).toBe(true);
    // It opens on what came after the last step that ended.
    const window = await range(page);
    expect(window && window.from < told.at.seconds && told.at.seconds <= window.to).toBe(true);
    const sentence = page.locator(".timeline-head .sentence");
    expect(await sentence.innerText()).toMatch(
      /^Out of memory on cuda:0: [\d.]+ [GM]iB requested, [\d.]+ [KMG]?i?B free in torch's segments, [\d.]+ [KMG]?i?B not reserved, limit [\d.]+ GiB, .*at .*/,
    );
    await page.getByRole("button", { name: /^Out of memory: .* requested/ }).click();
    await idle(page);
    expect(await field(page, "view")).toBe("oom");
  });

  it("speaks of the peak where the failed allocation is not shown", async () => {
    await show(page, served.url, `#view=timeline&from=0&to=${told.at.seconds / 2}`);
    const sentence = page.locator(".timeline-head .sentence");
    expect(await sentence.innerText()).toMatch(/^Peak of cuda:0: [\d.]+ [GM]iB allocated/);
  });

  it("is a line of the overview, which leads to the reason", async () => {
    await show(page, served.url, "#view=overview");
    await page.getByRole("link", { name: "see why" }).click();
    await idle(page);
    expect(await field(page, "view")).toBe("oom");
  });

  it("did all that without a complaint", () => {
    expect(watched.complaints).toEqual([]);
  });
});

it("opens a saved page on the reason too", async () => {
  const folder = mkdtempSync(join(tmpdir(), "floodmark-oom-"));
  try {
    const file = join(folder, "page.html");
    await floodmark("export", OOM, "--to", "html", "-o", file);
    const { page, complaints } = await open(browser, pathToFileURL(file).href);
    expect(await page.locator(".page").getAttribute("data-view")).toBe("oom");
    expect(await page.locator(".oom-why .cause").innerText()).not.toBe("");
    expect(await page.locator(".notice.problem").count()).toBe(0);
    expect(complaints).toEqual([]);
    await page.context().close();
  } finally {
    rmSync(folder, { recursive: true });
  }
});

it("opens on the recording that failed, of several", async () => {
  const served = await serve(NEUMF, OOM);
  const { page } = await open(browser, served.url);
  expect(await page.locator(".page").getAttribute("data-view")).toBe("oom");
  await page.getByLabel("Recording").selectOption("0");
  await idle(page);
  expect(await page.locator(".page").getAttribute("data-view")).toBe("overview");
  await page.context().close();
  await served.stop();
});
