// Every view opens every fixture, and what is done with the pointer and the keys happens.

import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { field, idle, launch, open, range, type Watched } from "./browser";
import { repository, type Served, savedPage, serve } from "./program";

const FIXTURES = [
  "fixtures/recordings/zoo/resnet18_fp32.pickle.gz",
  "fixtures/recordings/allocator/default-oom.pickle.gz",
];

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

describe.each(FIXTURES)("%s", (fixture) => {
  let served: Served;
  let watched: Watched;
  let page: Page;
  beforeAll(async () => {
    served = await serve(repository(fixture));
    watched = await open(browser, served.url);
    page = watched.page;
  });
  afterAll(async () => {
    await page.context().close();
    served.stop();
  });

  it("opens every view without a complaint", async () => {
    const tabs = await page.getByRole("tab").all();
    expect(tabs.length).toBeGreaterThanOrEqual(2);
    for (const tab of tabs) {
      await tab.click();
      await idle(page);
      expect(await page.locator(".notice.problem").count()).toBe(0);
    }
    expect(watched.complaints).toEqual([]);
  });

  it("zooms around the pointer, pans by a drag, and goes back", async () => {
    await page.goto(`${served.url}#view=timeline`);
    await idle(page);
    const box = await chart(page);
    const [x, y] = [box.x + box.width * 0.5, box.y + box.height * 0.6];
    await page.mouse.move(x, y);
    for (let turn = 0; turn < 4; turn += 1) await page.mouse.wheel(0, -240);
    await settled(page);
    const zoomed = await range(page);
    if (!zoomed) throw new Error("the wheel did not zoom");
    await page.mouse.down();
    await page.mouse.move(x + 150, y, { steps: 6 });
    await page.mouse.up();
    await settled(page);
    const panned = await range(page);
    if (!panned) throw new Error("the drag did not pan");
    expect(panned.from).toBeLessThan(zoomed.from);
    expect(panned.to - panned.from).toBeCloseTo(zoomed.to - zoomed.from, 4);
    await page.keyboard.press("0");
    await idle(page);
    expect(await range(page)).toBeNull();
    await page.goBack();
    await idle(page);
    expect(await range(page)).toEqual(panned);
  });

  it("brushes a range with the shift key held", async () => {
    await page.goto(`${served.url}#view=timeline`);
    await idle(page);
    const box = await chart(page);
    await page.keyboard.down("Shift");
    await page.mouse.move(box.x + box.width * 0.3, box.y + box.height * 0.5);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.6, box.y + box.height * 0.5, { steps: 5 });
    await page.mouse.up();
    await page.keyboard.up("Shift");
    await settled(page);
    const brushed = await range(page);
    expect(brushed && brushed.to - brushed.from).toBeGreaterThan(0);
  });

  it("shows the allocation under a click, and the moment in the peak view", async () => {
    await page.goto(`${served.url}#view=timeline`);
    await idle(page);
    const box = await chart(page);
    await page.mouse.click(box.x + box.width * 0.55, box.y + box.height - 40);
    await settled(page);
    const at = await field(page, "at");
    expect(Number(at)).toBeGreaterThan(0);
    await page.getByRole("region", { name: "Allocation", exact: true }).waitFor();
    await page.keyboard.press("2");
    await idle(page);
    expect(await page.locator(".sentence").innerText()).toContain(`at ${Number(at).toFixed(3)} s`);
  });

  it("filters and sorts the report", async () => {
    await page.goto(`${served.url}#view=peak&rows=category`);
    await idle(page);
    const before = await page.locator("tbody tr.pickable").count();
    await page.getByRole("button", { name: /^Count/ }).click();
    expect(await page.locator("th[aria-sort=descending]").innerText()).toContain("Count");
    await page.getByLabel("Filter report by category").fill("zzzz");
    expect(await page.locator("tbody tr.pickable").count()).toBe(0);
    await page.getByLabel("Filter report by category").fill("");
    expect(await page.locator("tbody tr.pickable").count()).toBe(before);
  });

  it("lists its keys, and closes the list", async () => {
    await page.keyboard.press("Escape");
    await page.keyboard.press("?");
    await page.getByRole("dialog").getByText("These keys").waitFor();
    await page.keyboard.press("Escape");
    await expect.poll(() => page.getByRole("dialog").count()).toBe(0);
  });

  it("did all that without a complaint", () => {
    expect(watched.complaints).toEqual([]);
  });
});

it("a saved page shows the same from disk, without a request", async () => {
  const url = savedPage(repository(FIXTURES[0] ?? ""));
  const { page, complaints } = await open(browser, url);
  const asked: string[] = [];
  page.on("request", (request) => asked.push(request.url()));
  for (const tab of await page.getByRole("tab").all()) {
    await tab.click();
    await idle(page);
    expect(await page.locator(".notice.problem").allTextContents()).toEqual([]);
  }
  await page.goto(`${url}#view=timeline&by=module&from=0.1&to=0.2`);
  await idle(page);
  expect(await page.locator(".legend li").count()).toBeGreaterThan(1);
  expect(complaints).toEqual([]);
  expect(asked.filter((address) => !address.startsWith("file:"))).toEqual([]);
  await page.context().close();
});

it("moves nothing while it loads", async () => {
  const served = await serve(repository(FIXTURES[0] ?? ""));
  const page = await browser.newPage({ viewport: { width: 1280, height: 720 } });
  await page.addInitScript(() => {
    const shifts: number[] = [];
    Object.assign(globalThis, { shifts });
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries())
        shifts.push((entry as unknown as { value: number }).value);
    }).observe({ type: "layout-shift", buffered: true });
  });
  await page.goto(served.url);
  await idle(page);
  const shifts = await page.evaluate(() => (globalThis as unknown as { shifts: number[] }).shifts);
  expect(shifts.reduce((sum, value) => sum + value, 0)).toBeLessThan(0.01);
  await page.close();
  served.stop();
});

async function chart(page: Page): Promise<{ x: number; y: number; width: number; height: number }> {
  const box = await page.locator(".chart canvas").boundingBox();
  if (!box) throw new Error("there is no picture");
  return box;
}

/** Waits until the address has what was moved. */
async function settled(page: Page): Promise<void> {
  await page.waitForTimeout(300);
  await idle(page);
}
