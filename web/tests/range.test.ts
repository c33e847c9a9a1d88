// A range that is selected in the timeline says what changed in it.

import { describe, expect, it } from "vitest";
import { chart, field, idle, range, show, useBrowser, useVisit } from "./browser";
import { CPU, NEUMF } from "./recordings";

const used = useBrowser();

describe.each([
  ["a recording of the CPU", CPU],
  ["a snapshot of a GPU", NEUMF],
])("%s", (_, file) => {
  const visit = useVisit(used, file);

  it("answers a drag with the shift key, and keeps the window", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=timeline");
    await page.keyboard.press("0");
    await idle(page);
    const box = await chart(page);
    await page.keyboard.down("Shift");
    await page.mouse.move(box.x + box.width * 0.2, box.y + box.height * 0.5);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.9, box.y + box.height * 0.5, { steps: 5 });
    await page.mouse.up();
    await page.keyboard.up("Shift");
    const panel = page.getByRole("region", { name: "Selected range" });
    await panel.getByText("Net change").waitFor();
    await idle(page);
    expect(await range(page)).toBeNull();
    const figures = await panel.locator(".range-figures").innerText();
    for (const name of ["Allocated", "Freed", "Survivors", "Gone"]) expect(figures).toContain(name);
    expect(await panel.locator("tbody tr.pickable").count()).toBeGreaterThan(0);
  });

  it("adds up: survivors less what is gone is the change of the total", async () => {
    const { page } = visit;
    const [from, to] = ((await field(page, "sel")) ?? "").split(",").map(Number);
    const found = await page.evaluate(
      async ([a, b]) => (await fetch(`api/range?trace=0&from=${a}&to=${b}`)).json(),
      [from, to],
    );
    const { survivors, gone, net } = found.change;
    expect(found.allocated_to - found.allocated_from).toBe(net);
    expect(survivors.bytes - gone.bytes).toBe(net);
    const text = await page.locator(".range-sentence").innerText();
    expect(text).toMatch(new RegExp(`to .*at ${found.to.seconds.toFixed(3)} s`));
  });

  it("opens the largest survivor of a row with the keys, and groups by module", async () => {
    const { page } = visit;
    const panel = page.getByRole("region", { name: "Selected range" });
    await panel.locator("tbody tr.pickable").first().focus();
    await page.keyboard.press("Enter");
    await page.getByRole("region", { name: "Allocation", exact: true }).waitFor();
    await panel.getByRole("button", { name: "Module" }).click();
    await idle(page);
    expect(await field(page, "changes")).toBe("module");
    await page.goBack();
    await idle(page);
    expect(await field(page, "changes")).toBeNull();
  });

  it("is selected and closed by keys", async () => {
    const { page, served } = visit;
    await show(page, served.url, "#view=timeline");
    await page.keyboard.press("]");
    await idle(page);
    expect(await field(page, "sel")).not.toBeNull();
    await page.getByRole("button", { name: "Zoom to it" }).click();
    await idle(page);
    const [from] = ((await field(page, "sel")) ?? "").split(",").map(Number);
    expect((await range(page))?.from ?? 0).toBeCloseTo(from ?? -1, 5);
    await page.keyboard.press("Escape");
    await expect.poll(() => field(page, "sel")).toBeNull();
  });

  it("did all that without a complaint", () => {
    expect(visit.complaints).toEqual([]);
  });
});
