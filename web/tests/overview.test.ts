// The first view of a recording in which nothing failed: each part says something, and leads to its view.

import { describe, expect, it } from "vitest";
import { field, idle, shifted, useBrowser, useVisit } from "./browser";
import { CPU, RESNET } from "./recordings";

const used = useBrowser();

describe.each([
  ["a recording of the CPU with a leak", CPU],
  ["a snapshot of a GPU", RESNET],
])("%s", (_, file) => {
  const visit = useVisit(used, file);

  it("opens on the overview, with the peak in its first line", async () => {
    const { page } = visit;
    expect(await shifted(page), "what moved while it was loaded").toBe(0);
    expect(await page.locator(".page").getAttribute("data-view")).toBe("overview");
    expect(await page.locator(".overview h2").innerText()).toMatch(/^Peak of .* allocated/);
    expect(await page.locator(".overview-list .name").count()).toBeGreaterThan(2);
  });

  it.each([
    ["timeline", /with the peak|The whole recording/],
    ["peak", /^Lines with the most bytes/],
    ["steps", /^Growth from step to step/],
    ["advice", /^What to change/],
  ])("leads to %s", async (view, part) => {
    const { page, served } = visit;
    await page.goto(`${served.url}#`);
    await idle(page);
    await page.getByRole("region", { name: part }).getByRole("link").first().click();
    await idle(page);
    expect(await field(page, "view")).toBe(view);
    await page.goBack();
    await idle(page);
    expect(await page.locator(".page").getAttribute("data-view")).toBe("overview");
  });

  it("opens the time of a click in the timeline", async () => {
    const { page } = visit;
    const box = await page.locator(".overview-picture canvas").boundingBox();
    if (!box) throw new Error("there is no picture");
    await page.mouse.click(box.x + box.width * 0.5, box.y + box.height * 0.5);
    await idle(page);
    expect(await field(page, "view")).toBe("timeline");
    expect(Number(await field(page, "at"))).toBeGreaterThan(0);
  });

  it("did all that without a complaint", () => {
    expect(visit.complaints).toEqual([]);
  });
});
