// The plan of a program: every try against the memory of the GPU, the curve, the changes and the patch; served and saved.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Plan } from "../src/api/types.gen";
import { formatBytes } from "../src/base/bytes";
import { field, idle, open, shifted, show, useBrowser, useVisit, type Watched } from "./browser";
import { floodmark, type Served, serve } from "./program";
import { LLAMA, PLAN } from "./recordings";

const used = useBrowser();
const folder = mkdtempSync(join(tmpdir(), "floodmark-plan-"));
afterAll(() => rmSync(folder, { recursive: true }));

async function planOf(page: Page, url: string): Promise<Plan> {
  return (await (await page.request.get(`${url}api/plan?trace=0`)).json()) as Plan;
}

describe.each(["served", "saved"])("%s", (how) => {
  let served: Served;
  let url: string;
  let plan: Plan;
  let watched: Watched;
  beforeAll(async () => {
    served = await serve(PLAN);
    url = served.url;
    if (how === "saved") {
      const saved = join(folder, "plan.html");
      await floodmark("export", PLAN, "--to", "html", "-o", saved);
      url = pathToFileURL(saved).href;
    }
    watched = await open(used.browser, url);
    plan = await planOf(watched.page, served.url);
  });
  afterAll(async () => {
    await watched.page.context().close();
    await served.stop();
  });

  it("opens on the plan, and nothing moves", async () => {
    const { page } = watched;
    expect(await page.locator(".page").getAttribute("data-view")).toBe("plan");
    const changes = plan.plan?.changes ?? [];
    expect(changes.length).toBeGreaterThan(0);
    const sentence = await page.getByRole("heading", { level: 2 }).innerText();
    expect(sentence).toContain(`Fits with ${changes.join(" + ")}: ${plan.gpu}`);
    expect(await shifted(page)).toBe(0);
  });

  it("has a bar for every try, the plan first, then the unchanged program", async () => {
    const rows = watched.page.locator(".plan-table tbody tr");
    expect(await rows.count()).toBe(plan.tries.length);
    const unchanged = rows.nth(1);
    expect(await unchanged.locator(".plan-name").innerText()).toBe("unchanged");
    expect(await unchanged.innerText()).toContain("✗ no");
    const chosen = watched.page.locator(".plan-table tr.is-plan:first-child");
    expect(await chosen.count()).toBe(1);
    expect(await chosen.innerText()).toContain("the plan");
    expect(await chosen.innerText()).toContain("✓ yes");
    // What is beyond the limit is hatched, and begins at the line.
    const parts = await unchanged
      .locator(".plan-bar i")
      .evaluateAll((all) =>
        all.map((part) => part.getBoundingClientRect()).map(({ left, right }) => ({ left, right })),
      );
    const [within, beyond, limit] = parts;
    expect(within && limit && Math.abs(within.right - limit.left)).toBeLessThan(2);
    expect(beyond && beyond.right - beyond.left).toBeGreaterThan(3);
  });

  it("names the points of the curve by keys, and by the pointer", async () => {
    const { page } = watched;
    const said = page.locator(".plan-pointed");
    await page.keyboard.press("n");
    await expect.poll(() => said.innerText()).toMatch(/: [\d.]+ [MG]iB, (fits|does not fit); /);
    const first = await said.innerText();
    await page.keyboard.press("ArrowRight");
    await expect.poll(() => said.innerText()).not.toBe(first);
    await page.keyboard.press("p");
    await expect.poll(() => said.innerText()).toBe(first);
    expect(await page.locator(".plan-table tr.pointed").count()).toBe(1);
    await page.keyboard.press("Escape");
    await expect.poll(() => page.locator(".plan-table tr.pointed").count()).toBe(0);
    const canvas = page.locator(".plan-picture canvas");
    const box = await canvas.boundingBox();
    if (!box) throw new Error("there is no curve");
    const tip = page.locator(".tooltip");
    for (let x = 80; x < box.width && (await tip.count()) === 0; x += 12) {
      for (let y = 10; y < box.height && (await tip.count()) === 0; y += 24)
        await page.mouse.move(box.x + x, box.y + y);
    }
    expect(await tip.innerText()).toContain("time of a step");
    await page.mouse.move(box.x + 5, box.y - 40);
    expect(await canvas.getAttribute("aria-label")).toContain("The plan is ");
  });

  it("has the changes with their costs, the patch and the command, each to copy", async () => {
    const { page } = watched;
    const part = page.getByRole("region", { name: "The changes of the plan" });
    expect(await part.locator("ol li").count()).toBe(plan.changes.length);
    for (const change of plan.changes) expect(await part.innerText()).toContain(change.change);
    const codes = await part.locator("pre").allInnerTexts();
    expect(codes.map((code) => code.trim())).toEqual([plan.patch.trim(), plan.command.trim()]);
    expect(await part.getByRole("button", { name: /^Copy/ }).count()).toBe(2);
  });

  it("says what fills the peak, and leads to it from the overview", async () => {
    const { page } = watched;
    const causes = page.getByRole("region", { name: "What fills the peak without changes" });
    expect(await causes.locator("li").count()).toBe(plan.causes.length);
    await show(page, url, "#view=overview");
    const line = page.locator(".plan-link");
    await expect.poll(() => line.innerText()).toContain("Fits with");
    await line.getByRole("link", { name: "Plan" }).click();
    await idle(page);
    expect(await field(page, "view")).toBe("plan");
  });

  it("has the memory of the GPU in every view, not that of the simulation", async () => {
    const { page } = watched;
    const memory = formatBytes(plan.capacity);
    await show(page, url, "#view=overview");
    expect(await page.locator(".overview section").first().innerText()).toContain(`with ${memory}`);
    await show(page, url, "#view=timeline&lines=allocated,capacity");
    const whole = page.locator("label", { hasText: "Whole GPU" });
    expect(await whole.getAttribute("title")).toBe(`The GPU has ${memory}`);
    for (const view of ["overview", "timeline", "peak", "segments", "steps", "advice"]) {
      await show(page, url, `#view=${view}`);
      expect(await page.locator("#view").innerText(), view).not.toContain("TiB");
    }
  });

  it.each(["light", "dark"] as const)("can be read in %s", async (colorScheme) => {
    const { page, complaints } = await open(used.browser, `${url}#view=plan`, { colorScheme });
    expect(await page.evaluate(() => document.documentElement.dataset.theme)).toBe(colorScheme);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    expect(wide, "pixels to scroll sideways").toBeLessThanOrEqual(0);
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  it("did all that without a complaint", () => {
    expect(watched.complaints).toEqual([]);
  });
});

describe("a trace without a plan", () => {
  const visit = useVisit(used, LLAMA);

  it("has no tab, no line and no answer", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=overview");
    expect(await page.getByRole("tab", { name: "Plan" }).count()).toBe(0);
    expect(await page.locator(".plan-link").count()).toBe(0);
    const refused = await page.request.get(`${served.url}api/plan?trace=0`);
    expect(refused.status()).toBe(422);
    expect(await refused.text()).toContain("the trace has no plan");
  });
});
