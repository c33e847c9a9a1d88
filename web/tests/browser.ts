// A browser, and pages that notice what goes wrong in them.

import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";

export async function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--force-color-profile=srgb", "--font-render-hinting=none"],
  });
}

export interface Watched {
  readonly page: Page;
  /** Errors and warnings of the console, exceptions, answers that were refused, requests to anywhere else. */
  readonly complaints: string[];
}

/** A page that shows `url`, watched from its first request on. */
export async function open(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<Watched> {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 720 },
    locale: "en-US",
    ...options,
  });
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("request", (request) => {
    const address = request.url();
    if (/^https?:/.test(address) && new URL(address).origin !== new URL(url).origin)
      complaints.push(`asked ${address}`);
  });
  await page.goto(url);
  await idle(page);
  return { page, complaints };
}

/** Waits until nothing is under way any more. */
export async function idle(page: Page): Promise<void> {
  await page.waitForSelector('.page[data-idle="true"]', { state: "attached" });
  // What a signal set off begins with the next frame.
  await page.evaluate(
    () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))),
  );
  await page.waitForSelector('.page[data-idle="true"]', { state: "attached" });
}

/** A field of the address. */
export async function field(page: Page, name: string): Promise<string | null> {
  const hash = await page.evaluate(() => location.hash);
  return new URLSearchParams(hash.slice(1)).get(name);
}

/** The window that the address has; the whole recording when it has none. */
export async function range(page: Page): Promise<{ from: number; to: number } | null> {
  const [from, to] = [await field(page, "from"), await field(page, "to")];
  return from === null || to === null ? null : { from: Number(from), to: Number(to) };
}
