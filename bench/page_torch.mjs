// torch's own page of a snapshot, as `python -m torch.cuda._memory_viz trace_plot` writes it. It loads its script and
// d3 from other hosts; here both are answered from disk, and nothing else about it is changed.

import { execFile, execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { build } from "../web/node_modules/vite/dist/node/index.js";

/** Where it has d3 from. The packages that it names beside d3 are parts of it, and share its state. */
const D3 = "https://cdn.skypack.dev/d3@5";

/** Writes torch's page of a snapshot; seconds, or why it could not. */
export async function write(python, snapshot, page) {
  const before = performance.now();
  const args = ["-m", "torch.cuda._memory_viz", "trace_plot", snapshot, "-o", page];
  try {
    await promisify(execFile)(python, args, { maxBuffer: 1 << 26 });
    return { seconds: (performance.now() - before) / 1000 };
  } catch (error) {
    return {
      failed: String(error.stderr || error.message)
        .trim()
        .split("\n")
        .at(-1),
    };
  }
}

/** Installs d3 into a folder, and makes one module of it. */
export async function d3Module(folder) {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), "{}");
  execFileSync("npm", ["install", "--silent", "--no-audit", "--no-fund", "d3@5"], { cwd: folder });
  writeFileSync(join(folder, "all.js"), 'export * from "d3";\n');
  const lib = { entry: join(folder, "all.js"), formats: ["es"], fileName: () => "module.js" };
  const outDir = join(folder, "made");
  await build({ root: folder, configFile: false, logLevel: "error", build: { outDir, lib } });
  return readFileSync(join(outDir, "module.js"), "utf8");
}

/** Answers what torch's page asks other hosts for. */
export function answering(memoryViz, d3) {
  const headers = { "access-control-allow-origin": "*" };
  return async (page) => {
    await page.route(/^https:/, (route) => {
      const url = route.request().url();
      const isScript = url.endsWith("/MemoryViz.js");
      const body = isScript ? memoryViz : url === D3 ? d3 : `export * from "${D3}";`;
      return route.fulfill({ body, contentType: "text/javascript", headers });
    });
  };
}

/** Whether torch's page shows its plot: it is one polygon for each allocation. */
export const isDrawn = "() => document.querySelector('svg polygon') !== null";

/** Where the plot lies. */
export const plot = (page) => page.locator("svg").first().boundingBox();
