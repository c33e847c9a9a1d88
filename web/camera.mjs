// Opens saved pages in Chromium and takes pictures of them, for `take_pictures.mjs`, `take_gallery.mjs` and `review_page.mjs`.
//
// FLOODMARK_PROGRAM is the program, CHROMIUM the browser.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const ROOT = resolve(import.meta.dirname, "..");
const PROGRAM = process.env.FLOODMARK_PROGRAM ?? join(ROOT, ".venv/bin/floodmark");

/** Runs `floodmark` in the checkout, and returns what it printed. */
export function floodmark(...words) {
  const options = { cwd: ROOT, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] };
  return execFileSync(PROGRAM, words, options);
}

/**
 * Calls `work(folder, take)` with a temporary folder; `take(page, hash, path, look)` takes a picture of a saved page, and
 * returns what its console complains about. `look` has the width, the height and the colour scheme.
 */
export async function withCamera(work) {
  const folder = mkdtempSync(join(tmpdir(), "floodmark-pictures-"));
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--force-color-profile=srgb", "--font-render-hinting=none"],
  });
  try {
    await work(folder, (saved, hash, path, look) =>
      take(browser, `${pathToFileURL(saved)}#${hash}`, path, look),
    );
  } finally {
    await browser.close();
    rmSync(folder, { recursive: true });
  }
}

/** Opens an address, waits until nothing is under way, and takes a picture. */
async function take(browser, address, path, look = {}) {
  const { width = 1280, height = 720, colorScheme = "light" } = look;
  const page = await browser.newPage({
    viewport: { width, height },
    colorScheme,
    locale: "en-US",
  });
  const complaints = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  await page.goto(address);
  await page.waitForSelector('.page[data-idle="true"]', { state: "attached" });
  await page.evaluate(
    () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))),
  );
  await page.waitForSelector('.page[data-idle="true"]', { state: "attached" });
  await page.screenshot({ path });
  await page.close();
  console.log(path);
  return complaints;
}
