// A page on a file that is still growing.

import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { launch, open } from "./browser";
import { repository, serve } from "./program";

it("grows with its file, without being loaded again", async () => {
  const whole = readFileSync(repository("fixtures/page/hostile.flood"));
  const file = join(mkdtempSync(join(tmpdir(), "floodmark-growing-")), "growing.flood");
  writeFileSync(file, whole.subarray(0, whole.length * 0.6));
  const served = await serve("--follow", file);
  const browser = await launch();
  try {
    const { page, complaints } = await open(browser, served.url);
    await page.evaluate(() => Object.assign(globalThis, { isSamePage: true }));
    await page.getByText("Nothing was allocated yet.").waitFor();
    await page.getByText("live", { exact: true }).waitFor();
    writeFileSync(file, whole);
    await page.getByText(/^Peak of cpu: .* allocated/).waitFor();
    await expect.poll(() => page.getByText("live", { exact: true }).count()).toBe(0);
    expect(await page.evaluate(() => "isSamePage" in globalThis)).toBe(true);
    expect(complaints).toEqual([]);
  } finally {
    await browser.close();
    served.stop();
  }
});
