// A browser, the moment of the first picture, and the frames while a hand moves it. Knows neither page that it looks at.

import { chromium } from "../web/node_modules/playwright-core/index.mjs";

/** A frame of 60 a second, in milliseconds; timestamps are whole tenths. */
export const FRAME = 1000 / 60;
const LONGEST_GOOD = FRAME + 0.2;
/** This many events may wait for a page that does not keep up. */
const MOST_UNDER_WAY = 16;

/** Opens Chromium. */
export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox"],
  });
}

/** A page that notes when `isDrawn` (a function, run in the page) is first true at the end of a frame. */
export async function opened(browser, url, isDrawn, { prepare, patience_millis = 90_000 } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 720 } });
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("crash", () => errors.push("the tab crashed"));
  page.on("console", (message) => {
    if (message.type() === "error") errors.push(message.text());
  });
  await prepare?.(page);
  await page.addInitScript(`{
    const isDrawn = ${isDrawn};
    const look = () => {
      if (!isDrawn()) return requestAnimationFrame(look);
      requestAnimationFrame(() => { globalThis.firstPicture = performance.now(); });
    };
    requestAnimationFrame(look);
  }`);
  let millis = null;
  try {
    await page.goto(url, { timeout: patience_millis, waitUntil: "commit" });
    const found = await page.waitForFunction(() => globalThis.firstPicture, null, {
      timeout: patience_millis,
    });
    millis = await found.jsonValue();
  } catch (error) {
    const isLate = error.name === "TimeoutError";
    const message = isLate ? `nothing within ${patience_millis / 1000} s` : String(error.message);
    errors.push(message.split("\n")[0]);
  }
  return { page, millis, errors, close: () => context.close().catch(() => {}) };
}

/** Timestamps of all frames while `work` goes on, and how long the page's thread was at work. */
async function frames(page, work) {
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  await page.evaluate(() => {
    const stamps = [];
    globalThis.noted = stamps;
    const note = (now) => {
      stamps.push(now);
      globalThis.noting = requestAnimationFrame(note);
    };
    globalThis.noting = requestAnimationFrame(note);
  });
  const before = await busySeconds(session);
  const moves = await work(session);
  const busy = (await busySeconds(session)) - before;
  const stamps = await page.evaluate(() => {
    cancelAnimationFrame(globalThis.noting);
    return globalThis.noted;
  });
  await session.detach();
  return summary(stamps, moves, busy);
}

async function busySeconds(session) {
  const { metrics } = await session.send("Performance.getMetrics");
  return metrics.find((metric) => metric.name === "TaskDuration").value;
}

function summary(stamps, moves, busySeconds) {
  const lengths = stamps.slice(1).map((stamp, at) => stamp - stamps[at]);
  lengths.sort((one, other) => one - other);
  const at = (share) => lengths[Math.min(lengths.length - 1, Math.floor(share * lengths.length))];
  return {
    frames: lengths.length,
    moves,
    busy_millis: rounded((1000 * busySeconds) / lengths.length),
    median_millis: rounded(at(0.5)),
    p95_millis: rounded(at(0.95)),
    longest_millis: rounded(lengths.at(-1)),
    late_share: rounded(lengths.filter((one) => one > LONGEST_GOOD).length / lengths.length),
    a_second: rounded((1000 * lengths.length) / (stamps.at(-1) - stamps[0])),
  };
}

const rounded = (number) => Number((number ?? Number.NaN).toFixed(3));

/** Drags the picture to and fro with the button held. */
export function drag(page, box, seconds) {
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  return frames(page, async (session) => {
    await page.mouse.move(x, y);
    await page.mouse.down();
    const reach = box.width * 0.35;
    const moves = await paced(seconds, (turn) =>
      session.send("Input.dispatchMouseEvent", {
        type: "mouseMoved",
        x: x + reach * Math.sin(turn / 40),
        y,
        button: "left",
        buttons: 1,
      }),
    );
    await page.mouse.up();
    return moves;
  });
}

/** Turns the wheel towards the picture and back. */
export function turn(page, box, seconds) {
  const [x, y] = [box.x + box.width * 0.6, box.y + box.height / 2];
  return frames(page, async (session) => {
    await page.mouse.move(x, y);
    return paced(seconds, (turn) =>
      session.send("Input.dispatchMouseEvent", {
        type: "mouseWheel",
        x,
        y,
        deltaX: 0,
        deltaY: turn % 60 < 30 ? -60 : 60,
      }),
    );
  });
}

/** Acts about once a frame, without waiting for the one before unless many are under way; returns how often. */
async function paced(seconds, act) {
  const end = performance.now() + seconds * 1000;
  const underWay = new Set();
  let turns = 0;
  for (let next = performance.now(); next < end; next += FRAME) {
    const sent = act(turns).finally(() => underWay.delete(sent));
    underWay.add(sent);
    turns += 1;
    if (underWay.size >= MOST_UNDER_WAY) await Promise.race(underWay);
    await new Promise((done) => setTimeout(done, Math.max(0, next + FRAME - performance.now())));
    if (performance.now() > end) break;
  }
  await Promise.all(underWay);
  return turns;
}
