// Who has the blocks, wasted memory over time, and the segments of another setting beside the recorded ones.

import { describe, expect, it } from "vitest";
import { field, idle, show, useBrowser, useVisit } from "./browser";
import { LLAMA, OOM } from "./recordings";

const used = useBrowser();

describe("a snapshot of a fragmented GPU", () => {
  const visit = useVisit(used, OOM);

  it("lists the owners of blocks, and marks the blocks of one", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=segments");
    const owners = page.getByRole("region", { name: "Owners of the blocks" }).getByRole("button");
    expect(await owners.count()).toBeGreaterThan(0);
    const name = (await owners.first().locator(".owner-name").innerText()).trim();
    expect(name).toMatch(/\.py:\d+ \(/);
    await owners.first().click();
    expect(await field(page, "owner")).toContain(name);
    expect(await owners.first().getAttribute("aria-pressed")).toBe("true");
    await page.keyboard.press("n");
    const said = page.locator(".segments-body [aria-live]").first();
    await expect.poll(() => said.innerText()).toMatch(/in use, .*\.py:\d+/);
  });

  it("opens at the failed allocation, and has the peak one click away", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=segments");
    const moments = page.getByRole("group", { name: "Moment" });
    const pressed = () => moments.locator("[aria-pressed=true]").innerText();
    expect(await pressed()).toBe("Out of memory");
    await moments.getByRole("button", { name: "Peak" }).click();
    await idle(page);
    expect([await pressed(), await field(page, "at")]).toEqual(["Peak", "peak"]);
  });

  it("moves the time with the curve of wasted memory, by keys and by the pointer", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=segments");
    const slider = page.getByRole("slider", { name: "Time of the segments" });
    await slider.focus();
    await page.keyboard.press("Home");
    await idle(page);
    const first = Number(await field(page, "at"));
    await page.keyboard.press("ArrowRight");
    await idle(page);
    const second = Number(await field(page, "at"));
    expect(second).toBeGreaterThan(first);
    expect(await slider.getAttribute("aria-valuetext")).toMatch(/reserved are wasted$/);
    const box = await slider.boundingBox();
    if (!box) throw new Error("there is no curve");
    await page.mouse.click(box.x + box.width * 0.9, box.y + box.height * 0.6);
    await idle(page);
    expect(Number(await field(page, "at"))).toBeGreaterThan(second);
  });

  it("shows what the best setting would do beside what was recorded", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=segments");
    await page.getByRole("button", { name: "Compare with a setting" }).click();
    await idle(page);
    expect(await field(page, "setting")).toBe("best");
    await page
      .getByRole("region", { name: "Simulated", exact: true })
      .getByText(/^Simulated with/)
      .waitFor();
    const rows = page.locator(".compared-figures tbody tr");
    const cells = async (row: number) => rows.nth(row).locator("td").allInnerTexts();
    expect((await cells(0))[0]).toMatch(/iB$/);
    expect((await cells(1))[0]).toMatch(/iB$/);
    expect((await cells(2))[0]).toMatch(/^[+−0]/);
    await page.getByLabel("setting").selectOption("expandable_segments:True");
    await idle(page);
    expect(await field(page, "setting")).toBe("expandable_segments:True");
    await page
      .getByRole("region", { name: "Simulated", exact: true })
      .getByText("expandable_segments:True")
      .waitFor();
    await page.getByLabel("setting").selectOption("none");
    await idle(page);
    await page.getByRole("region", { name: "Fragmentation" }).waitFor();
  });

  it("did all that without a complaint", () => {
    expect(visit.complaints).toEqual([]);
  });
});

describe("a recording with long waits", () => {
  const visit = useVisit(used, LLAMA);

  it("has a time at the same place in the strip and in the curve of wasted memory", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=segments");
    const boxes = [page.locator(".strip canvas").first(), page.locator(".segments-curve canvas")];
    for (const share of [0.2, 0.5, 0.8]) {
      const times: number[] = [];
      for (const picture of boxes) {
        const box = await picture.boundingBox();
        if (!box) throw new Error("there is no picture");
        await page.mouse.click(box.x + box.width * share, box.y + box.height * 0.7);
        await idle(page);
        times.push(Number(await field(page, "at")));
      }
      const [strip = 0, curve = 0] = times;
      // A pixel is some milliseconds, and more in an idle stretch.
      expect(Math.abs(strip - curve), `at ${share}: ${strip} and ${curve}`).toBeLessThan(0.05);
    }
  });
});
