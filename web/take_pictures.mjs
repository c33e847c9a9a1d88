// Takes the pictures of the documentation: views of the page, of a program on a simulated GPU.
//
//     node take_pictures.mjs FOLDER
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
const TRAINING = ["examples/train_gpt.py", "--device", "cuda", "--batch", "64"];
/** Seconds before and after the peak that the timeline and the tensors show. */
const AROUND = 0.25;

const folder = mkdtempSync(join(tmpdir(), "floodmark-pictures-"));
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--force-color-profile=srgb", "--font-render-hinting=none"],
});
try {
  const trace = join(folder, "train_gpt.flood");
  const saved = join(folder, "page.html");
  floodmark("estimate", "--gpu", "rtx4090", "--steps", "4", "-o", trace, ...TRAINING);
  floodmark("export", trace, "--to", "html", "-o", saved);
  const peak = JSON.parse(floodmark("report", trace, "--json")).at.seconds;
  const near = `&from=${peak - AROUND}&to=${peak + AROUND}`;
  const views = {
    page: `view=timeline${near}`,
    peak: "view=peak",
    segments: "view=segments",
    steps: "view=steps",
    tensors: `view=tensors${near}`,
    advice: "view=advice",
  };
  for (const [name, hash] of Object.entries(views)) {
    await take(`${pathToFileURL(saved)}#${hash}`, join(resolve(process.argv[2]), `${name}.png`));
  }
} finally {
  await browser.close();
  rmSync(folder, { recursive: true });
}

/** Runs `floodmark`, and returns what it printed. */
function floodmark(...words) {
  const options = { cwd: ROOT, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] };
  return execFileSync(PROGRAM, words, options);
}

/** Opens an address, waits until nothing is under way, and takes a picture. */
async function take(address, path) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 720 }, locale: "en-US" });
  await page.goto(address);
  await page.waitForSelector('.page[data-idle="true"]', { state: "attached" });
  await page.evaluate(
    () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))),
  );
  await page.waitForSelector('.page[data-idle="true"]', { state: "attached" });
  await page.screenshot({ path });
  await page.close();
  console.log(path);
}
