// What is done with the pointer, the keys, links and buttons happens, and is seen in the address and the text.

import { readFile } from "node:fs/promises";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { positionsOf } from "../src/base/axis";
import { axisOf, chart, field, idle, open, range, show, useBrowser, useVisit } from "./browser";
import { type Served, serve } from "./program";
import { CPU, LSTM, NEUMF } from "./recordings";

const used = useBrowser();

describe.each([
  ["a recording of the CPU", CPU],
  ["a snapshot of a GPU", NEUMF],
])("%s", (_, file) => {
  const visit = useVisit(used, file);

  it("zooms around the pointer, pans by a drag, and goes back", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=timeline");
    await showWhole(page);
    const box = await chart(page);
    const [x, y] = [box.x + box.width * 0.5, box.y + box.height * 0.6];
    await page.mouse.move(x, y);
    for (let turn = 0; turn < 4; turn += 1) await page.mouse.wheel(0, -240);
    const zoomed = await newRange(page, null);
    await page.mouse.down();
    await page.mouse.move(x + 150, y, { steps: 6 });
    await page.mouse.up();
    const panned = await newRange(page, zoomed);
    expect(panned.from).toBeLessThan(zoomed.from);
    const axis = await axisOf(page, served.url);
    const length = (window: { from: number; to: number }) => {
      const { from, to } = positionsOf(axis.knots, window);
      return to - from;
    };
    expect(length(panned)).toBeCloseTo(length(zoomed), 4);
    await page.keyboard.press("0");
    await idle(page);
    expect(await range(page)).toBeNull();
    await page.goBack();
    await idle(page);
    expect(await range(page)).toEqual(panned);
  });

  it("zooms to what is drawn along the axis", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=timeline");
    await showWhole(page);
    const axis = await axisOf(page, served.url);
    const box = await chart(page);
    const y = box.y + box.height - 8;
    await page.mouse.move(box.x + box.width * 0.3, y);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.6, y, { steps: 5 });
    await page.mouse.up();
    const brushed = positionsOf(axis.knots, await newRange(page, null));
    const share = (brushed.to - brushed.from) / axis.length;
    expect(share).toBeGreaterThan(0.25);
    expect(share).toBeLessThan(0.4);
  });

  it("moves, zooms and leaves by the keys that it lists", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=timeline");
    await showWhole(page);
    await page.keyboard.press("+");
    const closer = await newRange(page, null);
    await page.keyboard.press("ArrowRight");
    const later = await newRange(page, closer);
    expect(later.from).toBeGreaterThan(closer.from);
    await page.keyboard.press("Home");
    expect((await newRange(page, later)).from).toBe(0);
    await page.keyboard.press("?");
    const dialog = page.getByRole("dialog");
    await dialog.getByText("Show these keys").waitFor();
    expect(await dialog.innerText()).toContain("The whole recording");
    await page.keyboard.press("Escape");
    await expect.poll(() => dialog.count()).toBe(0);
    await page.keyboard.press("3");
    await idle(page);
    expect(await field(page, "view")).toBe("peak");
  });

  it("shows the allocation under a click, and its moment in the peak view", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=timeline");
    const box = await chart(page);
    await page.mouse.click(box.x + box.width * 0.55, box.y + box.height - 40);
    await page.getByRole("region", { name: "Allocation", exact: true }).waitFor();
    await expect.poll(() => field(page, "at")).not.toBeNull();
    const at = Number(await field(page, "at"));
    expect(at).toBeGreaterThan(0);
    await page.keyboard.press("3");
    await idle(page);
    expect(await page.locator(".sentence").innerText()).toContain(`at ${at.toFixed(3)} s`);
  });

  it("filters and sorts the report", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=peak&rows=category");
    const rows = () => page.locator("tbody tr.pickable").count();
    const before = await rows();
    expect(before).toBeGreaterThan(0);
    await page.getByRole("button", { name: /^Count/ }).click();
    await page.locator("th[aria-sort=descending]", { hasText: "Count" }).waitFor();
    await page.getByLabel("Filter report by category").fill("zzzz");
    await expect.poll(rows).toBe(0);
    await page.getByLabel("Filter report by category").fill("");
    await expect.poll(rows).toBe(before);
  });

  it("did all that without a complaint", () => {
    expect(visit.complaints).toEqual([]);
  });
});

describe("a link, a theme, a file", () => {
  let served: Served;
  beforeAll(async () => {
    served = await serve(LSTM);
  });
  afterAll(() => served.stop());

  it("leads back to the same place, in another window", async () => {
    const hash = "#view=timeline&trace=0&device=cuda%3A0&by=module&from=1&to=2&at=1.5";
    const { page, complaints } = await open(used.browser, `${served.url}${hash}`);
    expect(await range(page)).toEqual({ from: 1, to: 2 });
    expect(await page.locator(".top-bar select").first().inputValue()).toBe("module");
    const label = await page.locator(".chart canvas").getAttribute("aria-label");
    expect(label).toMatch(/^Memory of cuda:0 by module, from 1\.000 s to 2\.000 s/);
    await page.keyboard.press("3");
    await idle(page);
    expect(await page.locator(".sentence").innerText()).toContain("at 1.500 s");
    await page.goBack();
    await idle(page);
    expect(await page.locator(".page").getAttribute("data-view")).toBe("timeline");
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  it.each(["light", "dark"] as const)("is %s as the system, until chosen", async (system) => {
    const { page } = await open(used.browser, served.url, { colorScheme: system });
    const brightness = () =>
      page.evaluate(() => {
        const [red = 0] = getComputedStyle(document.body).backgroundColor.match(/\d+/g) ?? [];
        return Number(red);
      });
    const isDark = async () => (await brightness()) < 100;
    expect(await isDark()).toBe(system === "dark");
    // From the system's to light, then to dark; the choice outlives the page.
    await page.keyboard.press("Shift+T");
    await expect.poll(isDark).toBe(false);
    await page.keyboard.press("Shift+T");
    await expect.poll(isDark).toBe(true);
    await page.reload();
    await idle(page);
    expect(await isDark()).toBe(true);
    await page.context().close();
  });

  it.each(["timeline", "peak", "segments", "tensors"])("saves the picture of %s", async (view) => {
    const { page, complaints } = await open(used.browser, `${served.url}#view=${view}`);
    const save = async (how: string) => {
      await page.locator(".save-menu summary").first().click();
      const [file] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("button", { name: how }).first().click(),
      ]);
      return { name: file.suggestedFilename(), bytes: await readFile(await file.path()) };
    };
    const png = await save("Save as PNG");
    expect(png.name).toMatch(/\.png$/);
    expect(png.bytes.subarray(1, 4).toString()).toBe("PNG");
    expect(png.bytes.readUInt32BE(16)).toBeGreaterThan(500);
    const svg = await save("Save as SVG");
    expect(svg.name).toMatch(/\.svg$/);
    expect(svg.bytes.toString()).toMatch(/^<svg.*<title>.*<\/svg>\s*$/s);
    expect(complaints).toEqual([]);
    await page.context().close();
  });

  it("copies a picture", async () => {
    const { page } = await open(used.browser, `${served.url}#view=timeline`, {
      permissions: ["clipboard-read", "clipboard-write"],
    });
    await page.locator(".save-menu summary").first().click();
    await page.getByRole("button", { name: "Copy as PNG" }).first().click();
    const kinds = () =>
      page.evaluate(async () =>
        (await navigator.clipboard.read()).flatMap((item) => [...item.types]),
      );
    await expect.poll(kinds).toContain("image/png");
    await page.context().close();
  });
});

/** A timeline opens on one step: shows the whole recording. */
async function showWhole(page: Page): Promise<void> {
  await page.keyboard.press("0");
  await idle(page);
  expect(await range(page)).toBeNull();
}

/** The window of the address, once it is another one. */
async function newRange(
  page: Page,
  old: { from: number; to: number } | null,
): Promise<{ from: number; to: number }> {
  await expect.poll(() => range(page)).not.toEqual(old);
  // The page is not idle while the window moves and the address has yet to follow it.
  await idle(page);
  const found = await range(page);
  if (!found) throw new Error("the window is the whole recording");
  return found;
}
