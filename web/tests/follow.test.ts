// A recording that is still being made: the page grows with it, without being loaded again.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { launch, open } from "./browser";
import { python, repository, serve } from "./program";
import { CPU } from "./recordings";

it("grows with a program that runs, keeps its place, and says when it ends", async () => {
  const folder = mkdtempSync(join(tmpdir(), "floodmark-follow-"));
  const file = join(folder, "grows.flood");
  const recorder = spawn(python(), [repository("web/tests/grows.py"), file], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const browser = await launch();
  try {
    const [said] = await once(recorder.stdout, "data");
    expect(String(said)).toContain("step");
    const served = await serve("--follow", file);
    const { page, complaints, requests } = await open(browser, served.url);
    const steps = () => page.locator(".chart canvas").getAttribute("aria-label").then(recorded);
    const live = page.locator(".live");
    await live.waitFor();
    const first = await steps();
    await expect.poll(steps).toBeGreaterThan(first);
    const second = await steps();
    await expect.poll(steps).toBeGreaterThan(second);
    recorder.stdin.write("\n");
    await live.waitFor({ state: "detached" });
    await expect.poll(() => page.locator(".notice.problem").count()).toBe(0);
    const loads = requests.filter((url) => url === served.url);
    expect(loads.length, "times that the page was loaded").toBe(1);
    expect(requests.some((url) => url.endsWith("api/follow"))).toBe(true);
    expect(complaints).toEqual([]);
    await served.stop();
  } finally {
    recorder.kill();
    await browser.close();
    rmSync(folder, { recursive: true, force: true });
  }
});

it("waits for a file that has nothing yet, and shows what comes", async () => {
  const folder = mkdtempSync(join(tmpdir(), "floodmark-follow-"));
  const file = join(folder, "growing.flood");
  const whole = readFileSync(CPU);
  const half = Math.floor(whole.length * 0.6);
  writeFileSync(file, whole.subarray(0, half));
  const served = await serve("--follow", file);
  const browser = await launch();
  try {
    const { page, complaints } = await open(browser, served.url);
    await page.getByText("Nothing was allocated yet.").waitFor();
    await page.getByText("live", { exact: true }).waitFor();
    // As a recorder does: the file is never shorter than it was.
    appendFileSync(file, whole.subarray(half));
    await page.getByText(/^Peak of cpu: .* allocated/).waitFor();
    await expect.poll(() => page.getByText("live", { exact: true }).count()).toBe(0);
    expect(complaints).toEqual([]);
  } finally {
    await browser.close();
    await served.stop();
    rmSync(folder, { recursive: true });
  }
});

/** Seconds of the whole recording, as the picture's label tells them. */
function recorded(label: string | null): number {
  const [, number, unit] = /of ([\d.]+) (s|ms|min)\. Peak/.exec(label ?? "") ?? [];
  return Number(number) * ({ s: 1, ms: 1e-3, min: 60 }[unit ?? "s"] ?? 1);
}
