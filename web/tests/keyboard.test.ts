// Keys reach every picture and every allocation, and every choice is a step that Back undoes.

import { describe, expect, it } from "vitest";
import { field, idle, range, show, useBrowser, useVisit } from "./browser";
import { CPU, RESNET } from "./recordings";

const used = useBrowser();

const VIEWS = ["overview", "timeline", "peak", "segments", "steps", "tensors", "source", "advice"];

describe.each([
  ["a recording of the CPU", CPU],
  ["a snapshot of a GPU", RESNET],
])("%s", (_, file) => {
  const visit = useVisit(used, file);

  it.each(VIEWS)("every picture of %s can have the focus, and says what it shows", async (view) => {
    const { page, served } = visit;
    await show(page, served.url, `#view=${view}`);
    const pictures = await page.locator("#view canvas").evaluateAll((all) =>
      all.map((canvas) => ({
        says: canvas.getAttribute("aria-label") ?? "",
        isReached:
          (canvas as HTMLElement).tabIndex >= 0 || canvas.closest("[role=slider]") !== null,
      })),
    );
    for (const picture of pictures) {
      expect(picture.says.length).toBeGreaterThan(10);
      expect(picture.isReached, picture.says).toBe(true);
    }
  });

  /** The whole recording as ribbons, with the keys at its first allocation; what is said of it. */
  const atFirstAllocation = async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=timeline&mode=allocations");
    await page.keyboard.press("0");
    await idle(page);
    await page.locator(".chart canvas").focus();
    await page.keyboard.press("ArrowRight");
    return page.locator(".chart [aria-live]");
  };

  it("arrows move from allocation to allocation, Enter opens the card", async () => {
    const { page } = visit;
    const said = await atFirstAllocation();
    const first = await said.innerText();
    expect(first).toMatch(/^.+, [\d.]+ [KMG]?i?B, from .* allocation 1 of \d+ that are shown/);
    await page.keyboard.press("ArrowRight");
    expect(await said.innerText()).toMatch(/allocation 2 of/);
    await page.keyboard.press("ArrowLeft");
    expect(await said.innerText()).toBe(first);
    // Up and down stay at the time, and come back.
    await page.keyboard.press("ArrowRight");
    const second = await said.innerText();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowUp");
    expect(await said.innerText()).toMatch(/^.+, from /);
    await page.keyboard.press("Enter");
    await idle(page);
    await page.getByRole("region", { name: "Allocation", exact: true }).waitFor();
    expect(await field(page, "allocation")).toMatch(/^\d+$/);
    expect(second).not.toBe(first);
  });

  it("reaches every allocation that is shown", async () => {
    const { page } = visit;
    const said = await atFirstAllocation();
    const count = Number(/of (\d+) that/.exec(await said.innerText())?.[1]);
    const seen = new Set<string>();
    for (let at = 0; at < Math.min(count, 60); at += 1) {
      seen.add(/allocation (\d+) of/.exec(await said.innerText())?.[1] ?? "");
      await page.keyboard.press("ArrowRight");
    }
    expect(seen.size).toBe(Math.min(count, 60));
  });

  it("the strip moves by keys", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=peak");
    await page.locator(".strip canvas").focus();
    await page.keyboard.press("Home");
    await idle(page);
    await expect.poll(() => field(page, "at")).toBe("0");
    await show(page, served.url, "#view=timeline");
    await page.keyboard.press("+");
    await page.keyboard.press("+");
    await idle(page);
    const before = await range(page);
    await page.locator(".strip canvas").focus();
    await page.keyboard.press("Home");
    await idle(page);
    const after = await range(page);
    expect(after?.from).toBe(0);
    expect(before && before.from > 0).toBe(true);
  });

  it("Back undoes a hidden group, a line, an order and the height", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=timeline");
    const box = page.locator(".legend input").first();
    await box.uncheck();
    await idle(page);
    expect(await field(page, "off")).not.toBeNull();
    await page.getByLabel("Fit height").check();
    await idle(page);
    expect(await field(page, "fit")).toBe("1");
    await page.goBack();
    await idle(page);
    expect([await field(page, "fit"), await box.isChecked()]).toEqual([null, false]);
    await page.goBack();
    await idle(page);
    expect([await field(page, "off"), await box.isChecked()]).toEqual([null, true]);
    await show(page, served.url, "#view=peak");
    await page.getByRole("button", { name: /^Count/ }).click();
    await idle(page);
    expect(await field(page, "sorted")).toMatch(/count/);
    await page.goBack();
    await idle(page);
    expect(await field(page, "sorted")).toBeNull();
  });

  it("the filter of tensors is in the address", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=tensors");
    await page.getByLabel(/^Filter tensors/).fill("w");
    await expect.poll(() => field(page, "find_tensors")).toBe("w");
    await show(page, served.url, "#view=tensors&find_tensors=bias");
    expect(await page.getByLabel(/^Filter tensors/).inputValue()).toBe("bias");
  });

  it("did all that without a complaint", () => {
    expect(visit.complaints).toEqual([]);
  });
});
