// The axis of the timeline: time with short idle stretches, events, steps; in the address, served and saved.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { chart, field, idle, open, range, show, useBrowser, useVisit } from "./browser";
import { floodmark } from "./program";
import { LLAMA } from "./recordings";

const used = useBrowser();

/** A drag over a part of the picture selects it: the seconds that lie there. */
async function secondsAcross(page: Page, from: number, to: number): Promise<number> {
  const box = await chart(page);
  const [left, width] = [box.x + 72, box.width - 72 - 38];
  await page.keyboard.down("Shift");
  await page.mouse.move(left + width * from, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(left + width * to, box.y + box.height / 2, { steps: 4 });
  await page.mouse.up();
  await page.keyboard.up("Shift");
  await idle(page);
  const [start = 0, end = 0] = ((await field(page, "sel")) ?? "").split(",").map(Number);
  return end - start;
}

describe("a recording with long waits", () => {
  const visit = useVisit(used, LLAMA);

  it("opens on the step with the peak, along time", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=timeline");
    const window = await range(page);
    expect(window && window.from < 13.694 && window.to > 13.694).toBe(true);
    expect(window && window.to - window.from).toBeLessThan(1);
    expect(await page.getByRole("button", { name: "Time", exact: true }).isEnabled()).toBe(true);
    expect(await field(page, "axis")).toBeNull();
  });

  it("makes idle stretches short", async () => {
    const { page, served } = visit;
    const all = (await (
      await page.request.get(`${served.url}api/timeline?by=category&axis=time`)
    ).json()) as {
      seconds: number;
      axis: { length: number; breaks: { from: number; to: number }[] };
    };
    expect(all.axis.breaks.length).toBeGreaterThan(1);
    expect(all.axis.length).toBeLessThan(all.seconds / 5);
    await show(page, served.url, "#view=timeline&from=0&to=13.88");
    // The second half of the picture is less than a tenth of the time.
    expect(await secondsAcross(page, 0.5, 1)).toBeLessThan(all.seconds / 10);
  });

  it("gives all steps the same width, and keeps the window at its times", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=timeline&from=13&to=13.8");
    await page.getByRole("button", { name: "Steps", exact: true }).click();
    await idle(page);
    expect(await field(page, "axis")).toBe("steps");
    expect(await range(page)).toEqual({ from: 13, to: 13.8 });
    const label = page.locator(".chart canvas");
    expect(await label.getAttribute("aria-label")).toContain("all steps equally wide");
    await page.goBack();
    await idle(page);
    expect(await field(page, "axis")).toBeNull();
    expect(await label.getAttribute("aria-label")).not.toContain("equally wide");
  });

  it("shows the same bytes at a time along every axis", async () => {
    const { page, served } = visit;
    const peaks: string[] = [];
    for (const axis of ["time", "events", "steps"]) {
      await show(page, served.url, `#view=timeline&axis=${axis}&from=0&to=13.88`);
      // The cursor marks the peak wherever it lies: a click there finds an allocation that is live then.
      await page.keyboard.press("p");
      await idle(page);
      peaks.push(await page.locator(".sentence").innerText());
    }
    expect(new Set(peaks).size).toBe(1);
  });

  it("finds an allocation along events, and zooms along them", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=timeline&axis=events&mode=allocations");
    const box = await chart(page);
    await page.mouse.click(box.x + box.width / 2, box.y + box.height * 0.6);
    await page.getByRole("region", { name: "Allocation", exact: true }).waitFor();
    await idle(page);
    const at = Number(await field(page, "at"));
    await page.keyboard.press("+");
    await page.keyboard.press("+");
    await idle(page);
    const window = await range(page);
    expect(window && window.from < at && at < window.to).toBe(true);
  });

  it("did all that without a complaint", () => {
    expect(visit.complaints).toEqual([]);
  });
});

it("a saved page has all three", async () => {
  const folder = mkdtempSync(join(tmpdir(), "floodmark-axis-"));
  try {
    const file = join(folder, "page.html");
    await floodmark("export", LLAMA, "--to", "html", "-o", file);
    const { page, complaints } = await open(
      used.browser,
      `${pathToFileURL(file).href}#view=timeline`,
    );
    for (const name of ["Events", "Steps", "Time"]) {
      await page.getByRole("button", { name, exact: true }).click();
      await idle(page);
      expect(await page.locator(".notice.problem").count(), name).toBe(0);
      expect(await page.locator(".chart canvas").getAttribute("data-level")).toMatch(/^\d+$/);
    }
    expect(complaints).toEqual([]);
    await page.context().close();
  } finally {
    rmSync(folder, { recursive: true });
  }
});
