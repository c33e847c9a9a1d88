// A browser, and pages that notice what goes wrong in them.

import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { afterAll, beforeAll } from "vitest";
import type { TimeAxis } from "../src/base/axis";
import { type Served, serve } from "./program";

/** How long a state may take to come, in milliseconds. It only ends a test that hangs. */
const PATIENCE_MILLIS = 240_000;

export async function launch(): Promise<Browser> {
  return chromium.launch({
    timeout: PATIENCE_MILLIS,
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--force-color-profile=srgb", "--font-render-hinting=none"],
  });
}

export interface Watched {
  readonly page: Page;
  /** Errors and warnings of the console, exceptions, requests that failed, and those to anywhere else. */
  readonly complaints: string[];
  /** Every address that was asked for, from the first on. */
  readonly requests: string[];
}

/** A browser for all tests of a file. */
export function useBrowser(): { readonly browser: Browser } {
  const used = {} as { browser: Browser };
  beforeAll(async () => {
    used.browser = await launch();
  });
  afterAll(() => used.browser.close());
  return used;
}

export interface Visit {
  readonly served: Served;
  readonly page: Page;
  readonly complaints: readonly string[];
}

/** The real program that serves files, and a page that shows them, for all tests of a block. */
export function useVisit(used: { readonly browser: Browser }, ...files: string[]): Visit {
  const visit = {} as { -readonly [K in keyof Visit]: Visit[K] };
  beforeAll(async () => {
    visit.served = await serve(...files);
    const { page, complaints } = await open(used.browser, visit.served.url);
    Object.assign(visit, { page, complaints });
  });
  afterAll(async () => {
    await visit.page.context().close();
    await visit.served.stop();
  });
  return visit;
}

/** An empty page, in a context of its own. */
export async function newPage(browser: Browser, options: BrowserContextOptions): Promise<Page> {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 720 },
    locale: "en-US",
    ...options,
  });
  context.setDefaultTimeout(PATIENCE_MILLIS);
  return context.newPage();
}

/** A page that shows `url`, watched from its first request on. */
export async function open(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<Watched> {
  const page = await newPage(browser, options);
  await page.addInitScript(noteShifts);
  const watched: Watched = { page, complaints: [], requests: [] };
  watch(watched, new URL(url));
  await page.goto(url);
  await idle(page);
  return watched;
}

function watch({ page, complaints, requests }: Watched, home: URL): void {
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") complaints.push(message.text());
  });
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("response", (response) => {
    if (response.status() >= 400) complaints.push(`${response.status()} from ${response.url()}`);
  });
  page.on("request", (request) => {
    const address = new URL(request.url());
    if (address.protocol === "blob:" || address.protocol === "data:") return;
    requests.push(request.url());
    const isHome = home.protocol === "file:" ? address.pathname === home.pathname : true;
    if (address.origin !== home.origin || !isHome) complaints.push(`asked ${request.url()}`);
  });
}

function noteShifts(): void {
  const shifts: number[] = [];
  Object.assign(globalThis, { shifts });
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries())
      shifts.push((entry as unknown as { value: number }).value);
  }).observe({ type: "layout-shift", buffered: true });
}

/** How much has moved by itself since the page was loaded: what Lighthouse calls cumulative layout shift. */
export async function shifted(page: Page): Promise<number> {
  const shifts = await page.evaluate(() => (globalThis as unknown as { shifts: number[] }).shifts);
  return shifts.reduce((sum, value) => sum + value, 0);
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

/** Goes to a place of the page that is open already. */
export async function show(page: Page, url: string, hash: string): Promise<void> {
  await page.goto(`${url}${hash}`);
  await idle(page);
}

/** Where the canvas of the timeline lies. */
export async function chart(
  page: Page,
): Promise<{ x: number; y: number; width: number; height: number }> {
  const box = await page.locator(".chart canvas").boundingBox();
  if (!box) throw new Error("there is no picture");
  return box;
}

/** The axis of time of the first recording. */
export async function axisOf(page: Page, url: string): Promise<TimeAxis> {
  const answer = await page.request.get(`${url}api/timeline?by=category&axis=time`);
  return ((await answer.json()) as { axis: TimeAxis }).axis;
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
