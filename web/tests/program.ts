// The real program, serving a recording until the test is done.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const ROOT = resolve(import.meta.dirname, "../..");

export interface Served {
  readonly url: string;
  stop(): void;
}

/** A file of the repository. */
export function repository(path: string): string {
  return resolve(ROOT, path);
}

/** Where `floodmark` is: as told, or as cargo built it last. */
export function program(): string {
  const told = process.env.FLOODMARK_PROGRAM;
  const target = process.env.CARGO_TARGET_DIR ?? resolve(ROOT, "target");
  const found = [told, `${target}/release/floodmark`, `${target}/debug/floodmark`].find(
    (path) => path && existsSync(path),
  );
  if (!found)
    throw new Error(
      "no `floodmark` was built: `cargo build -p floodmark`, or say where it is in FLOODMARK_PROGRAM",
    );
  return found;
}

/** Starts `floodmark view --no-open`, and waits for the address that it prints. */
export async function serve(...args: string[]): Promise<Served> {
  const child = spawn(program(), ["view", "--no-open", ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const url = await address(child);
  return { url, stop: () => void child.kill("SIGINT") };
}

/** Saves a page with `floodmark export --to html`; the address of the file. */
export function savedPage(...traces: string[]): string {
  const file = join(mkdtempSync(join(tmpdir(), "floodmark-saved-")), "report.html");
  execFileSync(program(), ["export", ...traces, "--to", "html", "-o", file], { stdio: "pipe" });
  return pathToFileURL(file).href;
}

function address(child: ChildProcess): Promise<string> {
  return new Promise((found, failed) => {
    let said = "";
    const read = (chunk: Buffer) => {
      said += chunk.toString();
      const url = /http:\/\/127\.0\.0\.1:\d+\/[\w-]+\/?/.exec(said)?.[0];
      if (url) found(url.endsWith("/") ? url : `${url}/`);
    };
    child.stdout?.on("data", read);
    child.stderr?.on("data", read);
    child.on("exit", (code) => failed(new Error(`floodmark view ended with ${code}: ${said}`)));
    child.on("error", failed);
  });
}
