// Call stacks at the peak: frames of frameworks, one function between its callers and callees, colours of categories.

import { describe, expect, it } from "vitest";
import { field, idle, show, useBrowser, useVisit } from "./browser";
import { CPU, RESNET } from "./recordings";

const used = useBrowser();

describe.each([
  ["a recording of the CPU", CPU],
  ["a snapshot of a GPU", RESNET],
])("%s", (_, file) => {
  const visit = useVisit(used, file);

  it("leaves out frames of frameworks until they are wanted", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=peak&rows=stack");
    const rows = () =>
      page.locator(".flame-room").evaluate((room) => Number.parseFloat(room.style.height));
    const folded = await rows();
    await page.getByLabel("All frames").check();
    await idle(page);
    expect(await field(page, "frames")).toBe("all");
    expect(await rows()).toBeGreaterThanOrEqual(folded);
    await page.goBack();
    await idle(page);
    expect(await page.getByLabel("All frames").isChecked()).toBe(false);
  });

  it("folds the stack of a card with the same choice", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=peak");
    const icicle = (await (
      await page.request.get(`${served.url}api/icicle?by=stack&at=peak`)
    ).json()) as { root: { first_allocation: number } };
    const id = icicle.root.first_allocation;
    await show(page, served.url, `#view=timeline&allocation=${id}`);
    const frames = page.locator(".allocation .stack").first().locator("li");
    const folded = await frames.count();
    const card = (await (
      await page.request.get(`${served.url}api/allocation?trace=0&id=${id}`)
    ).json()) as { frames: { is_folded: boolean }[] };
    const own = card.frames.filter((frame) => !frame.is_folded).length;
    expect(folded).toBe(own);
    if (own === card.frames.length) return;
    await page.locator(".allocation").getByLabel("All frames").check();
    await idle(page);
    expect(await frames.count()).toBe(card.frames.length);
    await page.goBack();
    await idle(page);
    expect(await frames.count()).toBe(own);
  });

  it("orders the icicle by time, and keeps that in the address", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=peak");
    await page.getByRole("button", { name: "First allocated first" }).click();
    await idle(page);
    expect(await field(page, "order")).toBe("time");
    const icicle = page.getByRole("img", { name: /in the order of allocation/ });
    expect(await icicle.count()).toBe(1);
    await page.goBack();
    await idle(page);
    expect(await icicle.count()).toBe(0);
  });

  it("leads from a frame of the icicle to its source, by key and by link", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=peak");
    const icicle = page.getByRole("img", { name: /s shows the source\.$/ });
    await icicle.focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("s");
    await idle(page);
    expect(await field(page, "view")).toBe("source");
    const [file, line] = [await field(page, "file"), await field(page, "line")];
    expect([file, line]).toEqual([expect.stringMatching(/\.py$/), expect.stringMatching(/^\d+$/)]);
    await page.goBack();
    await idle(page);
    await icicle.focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await idle(page);
    await page
      .getByRole("link", { name: /^Source of / })
      .and(page.locator(".crumbs a"))
      .click();
    await idle(page);
    expect([await field(page, "view"), await field(page, "file")]).toEqual(["source", file]);
  });

  it("has the colours of categories in a legend", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=peak");
    const legend = page.locator(".category-legend");
    expect(await legend.getAttribute("aria-label")).toMatch(/^Colours: \w+/);
    expect(await legend.locator(".swatch").count()).toBeGreaterThan(0);
  });

  it("shows a function between its callers and its callees", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=peak");
    await page.getByRole("button", { name: "Sandwich" }).click();
    await idle(page);
    expect(await field(page, "tree")).toBe("sandwich");
    const pictures = page.locator(".sandwich canvas");
    expect(await pictures.count()).toBe(2);
    expect(await pictures.nth(0).getAttribute("aria-label")).toMatch(/^What called /);
    const chooser = page.getByLabel("Function");
    const other = await chooser.locator("option").nth(1).getAttribute("value");
    if (!other) throw new Error("there is one function only");
    await chooser.selectOption(other);
    await idle(page);
    expect(await field(page, "function")).toBe(other);
    const name = other.split("\n")[0] ?? "";
    expect(await pictures.nth(1).getAttribute("aria-label")).toContain(`What ${name} called.`);
  });

  it("finds a picked row in the icicle, and keeps that in the address", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=peak");
    await page.locator("tbody tr.pickable").first().click();
    await expect.poll(() => field(page, "find_tree")).toMatch(/:\d+$/);
    await page.getByText(/^found: /).waitFor();
  });

  it("did all that without a complaint", () => {
    expect(visit.complaints).toEqual([]);
  });
});
