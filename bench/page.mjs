// What the page costs: from its address to the first picture, and frames while it is moved; torch's page beside it.
//
//     node bench/page.mjs --program target/release/floodmark --events FILE --python PYTHON [--memory-viz FILE]
//
// `--events` is a recording of ten million events (`cargo run --release --example synthetic 10000000 FILE`). Without
// `--memory-viz` (torch/utils/viz/MemoryViz.js of PyTorch's sources; wheels do not have it) torch's page is left out.

import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { gunzipSync } from "node:zlib";
import { drag, launch, opened, turn } from "./page_frames.mjs";
import { render } from "./page_table.mjs";
import * as torch from "./page_torch.mjs";

const HERE = import.meta.dirname;
const { values: args } = parseArgs({
  options: {
    program: { type: "string" },
    events: { type: "string" },
    recording: {
      type: "string",
      default: join(HERE, "../fixtures/recordings/gpt2-300k-events.pickle.gz"),
    },
    large: { type: "string" },
    python: { type: "string", default: "python3" },
    "memory-viz": { type: "string" },
    results: { type: "string", default: join(HERE, "results") },
    times: { type: "string", default: "3" },
    seconds: { type: "string", default: "4" },
  },
});
const TIMES = Number(args.times);
const SECONDS = Number(args.seconds);
const folder = mkdtempSync(join(tmpdir(), "floodmark-bench-"));

/** Complete: the picture is there, and nothing that it waits for is under way. */
const isDrawn = `() => document.querySelector('.page[data-idle="true"] .chart canvas') !== null`;

/** Serves a file; tells where, and how long it took until it was ready. */
async function serve(file) {
  const before = performance.now();
  const child = spawn(args.program, ["view", "--no-open", file], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const url = await new Promise((found, failed) => {
    let said = "";
    const read = (chunk) => {
      said += chunk;
      const url = /http:\/\/127\.0\.0\.1:\d+\/[\w-]+\//.exec(said)?.[0];
      if (url) found(url);
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.on("exit", () => failed(new Error(said)));
  });
  return {
    url: `${url}#view=timeline`,
    ready_seconds: (performance.now() - before) / 1000,
    stop: () => child.kill("SIGINT"),
  };
}

/** The first picture and the frames of a page, the best of some runs; each begins with what `begin` serves anew. */
async function look({ begin, drawn, prepare, box }) {
  const found = { errors: [] };
  for (let time = 0; time < TIMES; time += 1) {
    const { url, ready_seconds, stop } = await begin();
    found.ready_seconds = Math.min(found.ready_seconds ?? Number.POSITIVE_INFINITY, ready_seconds);
    const browser = await launch();
    const shown = await opened(browser, url, drawn, { prepare });
    if (shown.millis === null) {
      found.errors.push(...shown.errors);
      await browser.close();
      stop();
      break;
    }
    found.first_millis = Math.min(found.first_millis ?? Number.POSITIVE_INFINITY, shown.millis);
    await closer(shown.page, await box(shown.page));
    better(found, "drag", await drag(shown.page, await box(shown.page), SECONDS));
    better(found, "wheel", await turn(shown.page, await box(shown.page), SECONDS));
    found.errors.push(...shown.errors);
    await browser.close();
    stop();
  }
  found.errors = [...new Set(found.errors)];
  return found;
}

/** A few turns of the wheel, so that there is somewhere to pan to. */
async function closer(page, box) {
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  for (let time = 0; time < 6; time += 1) await page.mouse.wheel(0, -240);
  await page.waitForTimeout(1000);
}

function better(found, name, next) {
  if (!found[name] || next.p95_millis < found[name].p95_millis) found[name] = next;
}

async function ours(file) {
  const box = (page) => page.locator(".chart canvas").boundingBox();
  return look({ begin: () => serve(file), drawn: isDrawn, box });
}

async function torchs(file, d3) {
  const page = join(folder, "torch.html");
  const written = await torch.write(args.python, file, page);
  if (written.failed) return { errors: [written.failed] };
  const page_megabytes = statSync(page).size / 1e6;
  const begin = () => ({
    url: pathToFileURL(page).href,
    ready_seconds: written.seconds,
    stop: () => {},
  });
  const prepare = torch.answering(readFileSync(args["memory-viz"], "utf8"), d3);
  const found = await look({ begin, drawn: torch.isDrawn, prepare, box: torch.plot });
  rmSync(page);
  return { page_megabytes, ...found };
}

/** The recording many times over, as `bench/snapshot.py` makes it. */
function large(unpacked) {
  if (args.large) return resolve(args.large);
  const file = join(folder, "large.pickle");
  const code =
    "import sys, pathlib, snapshot; snapshot.make_large(*map(pathlib.Path, sys.argv[1:]))";
  execFileSync(args.python, ["-c", code, unpacked, file], { cwd: HERE });
  return file;
}

function about(browserVersion) {
  const version = (program, ...words) => execFileSync(program, words).toString().trim();
  return {
    date: new Date().toISOString().slice(0, 10),
    cpu: cpus()[0]?.model,
    cores: cpus().length,
    load: loadavg()[0],
    chromium: browserVersion,
    node: process.version,
    floodmark: version(args.program, "--version"),
    torch: version(args.python, "-c", "import torch; print(torch.__version__)"),
    times: TIMES,
    seconds: SECONDS,
  };
}

async function main() {
  const unpacked = join(folder, "recording.pickle");
  writeFileSync(unpacked, gunzipSync(readFileSync(args.recording)));
  const hasTorch = args["memory-viz"] && existsSync(args["memory-viz"]);
  const d3 = hasTorch ? await torch.d3Module(join(folder, "d3")) : null;
  const files = [
    ["300,000 events of an H200", unpacked, true],
    ["the same steps many times over", large(unpacked), true],
    ["ten million events, made up", args.events, false],
  ];
  const rows = [];
  for (const [name, file, isSnapshot] of files) {
    if (!file) continue;
    const row = { name, megabytes: statSync(file).size / 1e6, floodmark: await ours(file) };
    if (isSnapshot && hasTorch) row.torch = await torchs(file, d3);
    rows.push(row);
    console.error(JSON.stringify(row));
  }
  const browser = await launch();
  const result = { about: about(`Chromium ${browser.version()}`), rows };
  await browser.close();
  writeFileSync(join(args.results, "page.json"), `${JSON.stringify(result, null, 2)}\n`);
  writeFileSync(join(args.results, "page.md"), render(result));
}

try {
  await main();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
