// Whether the page that the program embeds is what these sources build. `npm run build` makes it so.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "vite";

const COMMITTED = resolve(import.meta.dirname, "../crates/floodmark/page");
/** What the browser loads, packed. */
const MOST_GZIPPED = 400_000;

const fresh = mkdtempSync(join(tmpdir(), "floodmark-page-"));
try {
  await build({
    root: import.meta.dirname,
    logLevel: "error",
    build: { outDir: fresh, emptyOutDir: true },
  });
  const names = readdirSync(fresh).sort();
  const stale = names.filter((name) => read(fresh, name) !== read(COMMITTED, name));
  const beside = readdirSync(COMMITTED).filter((name) => !names.includes(name));
  if (stale.length + beside.length > 0) {
    console.error(
      `error: crates/floodmark/page is not what web/ builds: ${[...stale, ...beside].join(", ")}`,
    );
    console.error("\nhint: `make web`, and commit what it changes");
    process.exitCode = 1;
  }
  const packed = names.reduce(
    (sum, name) => sum + gzipSync(read(fresh, name), { level: 9 }).length,
    0,
  );
  if (packed > MOST_GZIPPED) {
    console.error(`error: the page is ${packed} bytes gzipped, more than ${MOST_GZIPPED}`);
    process.exitCode = 1;
  }
  console.log(`page: ${names.join(", ")}; ${packed} bytes gzipped`);
} finally {
  rmSync(fresh, { recursive: true });
}

function read(folder, name) {
  try {
    return readFileSync(join(folder, name), "utf8");
  } catch {
    return "";
  }
}
