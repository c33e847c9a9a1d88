// Modules of the chart of tensors that can be opened, and idle time.

import { describe, expect, it } from "vitest";
import { field, idle, range, show, useBrowser, useVisit } from "./browser";
import { repository } from "./program";

const used = useBrowser();

describe("the tensors of a recording with call stacks", () => {
  const visit = useVisit(used, repository("fixtures/recordings/gallery/llama.flood"));

  const height = () => visit.page.locator(".scrolled > div").evaluate((box) => box.clientHeight);

  it("opens on the step with the peak, and shows the whole recording when that is wanted", async () => {
    const { page, served } = visit;
    await page.goto("about:blank");
    await show(page, served.url, "#view=tensors");
    await expect.poll(() => field(page, "from")).not.toBeNull();
    const window = await range(page);
    expect(window && window.from < 13.694 && window.to > 13.694).toBe(true);
    expect(window && window.to - window.from).toBeLessThan(1);
    await page.getByRole("button", { name: "Whole recording", exact: true }).click();
    await idle(page);
    expect(await range(page)).toBeNull();
  });

  it("opens a module by a click on its name, and closes it again", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=tensors");
    const before = await height();
    const box = await page.locator(".scrolled canvas").boundingBox();
    if (!box) throw new Error("there is no chart");
    await page.mouse.click(box.x + 60, box.y + 30);
    await idle(page);
    expect(await field(page, "open")).toBe("(no module)");
    await expect.poll(height).not.toBe(before);
    await page.mouse.click(box.x + 60, box.y + 30);
    await idle(page);
    expect(await field(page, "open")).toBeNull();
    await expect.poll(height).toBe(before);
  });

  it("opens the module of the chosen tensor with a key", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=tensors");
    await page.keyboard.press("n");
    await page.keyboard.press("l");
    await idle(page);
    expect(await field(page, "open")).not.toBeNull();
    await page.goBack();
    await idle(page);
    expect(await field(page, "open")).toBeNull();
  });

  it("has lanes by name everywhere, and says what is idle", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=tensors");
    await page.getByRole("button", { name: "By name" }).click();
    await idle(page);
    expect(await field(page, "lanes")).toBe("names");
    await page.getByText("idle after the last known use").waitFor();
    await page.getByRole("button", { name: "Table" }).click();
    await idle(page);
    await page.getByRole("button", { name: "Idle after it" }).click();
    await idle(page);
    expect(await page.locator("tbody tr.pickable").first().innerText()).toMatch(/\d (s|ms|µs)/);
  });

  it("did all that without a complaint", () => {
    expect(visit.complaints).toEqual([]);
  });
});
