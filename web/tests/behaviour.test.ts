// Small things that a user stumbles over: each was wrong once.

import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chart, field, idle, launch, open, show } from "./browser";
import { type Served, serve } from "./program";
import { LSTM, NEUMF, OOM, RESNET } from "./recordings";

let browser: Browser;
beforeAll(async () => {
  browser = await launch();
});
afterAll(() => browser.close());

describe("three snapshots", () => {
  let served: Served;
  let page: Page;
  beforeAll(async () => {
    served = await serve(RESNET, NEUMF, LSTM);
    page = (await open(browser, served.url)).page;
  });
  afterAll(async () => {
    await page.context().close();
    await served.stop();
  });

  it("closes the list of keys with Escape, and not the card behind it", async () => {
    await show(page, served.url, "#view=timeline&trace=0");
    const box = await chart(page);
    await page.mouse.click(box.x + box.width * 0.55, box.y + box.height - 40);
    const card = page.getByRole("region", { name: "Allocation", exact: true });
    await card.waitFor();
    await page.keyboard.press("?");
    await page.getByRole("dialog").waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "hidden" });
    await idle(page);
    expect(await card.count()).toBe(1);
    await page.keyboard.press("Escape");
    await card.waitFor({ state: "detached" });
  });

  it("looks for a module in the icicle by module, and not for a file", async () => {
    await show(page, served.url, "#view=peak&trace=0&tree=module");
    await page.locator("tbody tr.pickable").first().click();
    await idle(page);
    const words = () => page.getByLabel("Find in the icicle").inputValue();
    expect(await words()).not.toMatch(/\.py|\//);
    await page.getByRole("button", { name: "By stack" }).click();
    await idle(page);
    await page.locator("tbody tr.pickable").first().click();
    await expect.poll(words).toMatch(/\.py:\d+$/);
    await page.getByRole("button", { name: "By module" }).click();
    await expect.poll(words).toBe("");
  });

  it("keeps filter, order and lines in the address", async () => {
    await show(page, served.url, "#view=peak&trace=0&rows=category");
    await page.getByRole("button", { name: /^Count/ }).click();
    await page.getByLabel("Filter report by category").fill("a");
    await idle(page);
    const rows = await page.locator("tbody").innerText();
    await page.reload();
    await idle(page);
    expect(await page.locator("tbody").innerText()).toBe(rows);
    expect(await page.getByLabel("Filter report by category").inputValue()).toBe("a");
    await show(page, served.url, "#view=timeline&trace=0");
    await page.getByLabel("Reserved").uncheck();
    await expect.poll(() => field(page, "lines")).toBe("allocated,limit");
  });

  it("opens a bar of several tensors", async () => {
    await show(page, served.url, "#view=tensors&trace=0");
    const box = await page.locator(".scrolled canvas").boundingBox();
    if (!box) throw new Error("there is no picture");
    const tip = page.locator(".tooltip", { hasText: "A click shows them one by one" });
    for (let y = 30; (await tip.count()) === 0 && y < box.height; y += 5)
      await page.mouse.move(box.x + box.width - 60, box.y + y);
    await page.mouse.down();
    await page.mouse.up();
    await expect.poll(() => field(page, "staying")).toBe("apart");
  });

  it("compares with the recording that is looked at", async () => {
    await show(page, served.url, "#view=diff&trace=2");
    const sides = page.locator(".diff .view-tools select");
    expect(await sides.nth(0).inputValue()).toBe("0");
    expect(await sides.nth(1).inputValue()).toBe("2");
    await page
      .locator("label.chooser", { hasText: "Recording" })
      .locator("select")
      .selectOption("1");
    await idle(page);
    expect(await sides.nth(1).inputValue()).toBe("1");
  });

  it("tells quietly what a snapshot cannot have, until that is dismissed", async () => {
    await show(page, served.url, "#view=peak&trace=0");
    const notice = page.getByText("are derived from stack frames");
    await notice.waitFor();
    expect(await page.locator(".losses:not(.neutral)").count()).toBe(0);
    await page.getByRole("button", { name: "Dismiss" }).click();
    await notice.waitFor({ state: "detached" });
    await show(page, served.url, "#view=steps&trace=0");
    expect(await notice.count()).toBe(0);
  });
});

it("compares a simulation with the simulated settings of the recording", async () => {
  const served = await serve(OOM);
  const { page } = await open(browser, `${served.url}#view=advice`);
  const own = page.locator(".sweep tbody tr", { hasText: "settings as recorded" });
  expect(await own.locator("td.number").nth(1).innerText()).toBe("0 B");
  await page.context().close();
  await served.stop();
});

it("says that the server is gone, in the timeline", async () => {
  const served = await serve(LSTM);
  const { page } = await open(browser, `${served.url}#view=timeline`);
  await served.stop();
  await page.keyboard.press("+");
  await page.keyboard.press("+");
  await page.keyboard.press("+");
  await page.getByText("`floodmark view` does not answer").first().waitFor();
  expect(await field(page, "from")).not.toBeNull();
  await page.context().close();
});
