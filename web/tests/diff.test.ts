// What grew, as a picture: curves on one axis, an icicle of both, times and devices of either side.

import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { field, idle, show, useBrowser, useVisit } from "./browser";
import { CPU, LSTM, NODES, RESNET } from "./recordings";

const used = useBrowser();

async function canvas(page: Page, panel: string) {
  const found = page.locator(`${panel} canvas`);
  const box = await found.boundingBox();
  if (!box) throw new Error(`there is no picture in ${panel}`);
  return { box, label: async () => (await found.getAttribute("aria-label")) ?? "" };
}

describe("two snapshots", () => {
  const visit = useVisit(used, RESNET, LSTM);

  it("compares the peaks, and another time after a click on a curve", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=diff");
    const { box, label } = await canvas(page, ".diff-curves");
    expect(await label()).toMatch(
      /^Allocated bytes of both recordings by (step|time since the start)/,
    );
    await page.getByText(/^The peak of cuda:0/).waitFor();
    await page.mouse.click(box.x + box.width * 0.5, box.y + box.height * 0.6);
    await page.getByText(/^What is allocated on cuda:0/).waitFor();
    const chosen = [await field(page, "at_a"), await field(page, "at_b")];
    expect(chosen.filter((at) => at !== null).length).toBe(1);
    await page.reload();
    await idle(page);
    await page.getByText(/^What is allocated on cuda:0/).waitFor();
    await page.getByRole("button", { name: "Peaks" }).click();
    await page.getByText(/^The peak of cuda:0/).waitFor();
    await page.goBack();
    await page.getByText(/^What is allocated on cuda:0/).waitFor();
  });

  it("moves the time of either side with the arrows", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=diff");
    await page.locator(".diff-curves canvas").focus();
    await page.keyboard.press("ArrowLeft");
    await expect.poll(() => field(page, "at_b")).not.toBeNull();
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("Shift+ArrowLeft");
    await expect.poll(() => field(page, "at_a")).not.toBeNull();
    await idle(page);
  });

  it("goes through the icicle with the arrows, and into a frame and out again", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=diff");
    const { label } = await canvas(page, ".diff-tree");
    expect(await label()).toMatch(/^What changed from .* as wide as the larger side/);
    await page.locator(".diff-tree canvas").focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    const said = page.locator(".diff-tree [aria-live]");
    await expect.poll(() => said.innerText()).toMatch(/: (new|grown|same|shrunk|gone), /);
    await page.keyboard.press("Enter");
    await expect.poll(() => field(page, "focus")).not.toBeNull();
    await page.goBack();
    await expect.poll(() => field(page, "focus")).toBeNull();
    await page.getByRole("button", { name: "By module" }).click();
    await idle(page);
    expect(await field(page, "tree")).toBe("module");
  });

  it("shows frames of frameworks when they are wanted", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=diff");
    const height = () =>
      page
        .locator(".diff-tree .flame-room")
        .evaluate((room) => Number.parseFloat(room.style.height));
    const folded = await height();
    await page.locator(".diff-tree").getByLabel("All frames").check();
    await idle(page);
    expect(await field(page, "frames")).toBe("all");
    expect(await height()).toBeGreaterThan(folded);
  });

  it("did all that without a complaint", () => {
    expect(visit.complaints).toEqual([]);
  });
});

describe("a snapshot and a recording of the CPU", () => {
  const visit = useVisit(used, RESNET, CPU);

  it("has the device with the highest peak on each side", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=diff");
    await page.getByText("cuda:0, then cpu,").waitFor();
    expect(await page.locator(".diff .notice.problem").count()).toBe(0);
  });
});

describe("ranks", () => {
  const visit = useVisit(used, NODES);

  it("compares any rank with any other", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=diff&a=1&b=5");
    await page.getByText(/^The peak of /).waitFor();
    await page.locator(".diff .view-tools select").first().selectOption("3");
    await idle(page);
    expect(await field(page, "a")).toBe("3");
    expect(await page.locator(".diff .notice.problem").count()).toBe(0);
    expect(visit.complaints).toEqual([]);
  });
});
