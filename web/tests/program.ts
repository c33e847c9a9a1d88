// The real program, serving a recording until the test is done.

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { promisify } from "node:util";

const ROOT = resolve(import.meta.dirname, "../..");

export interface Served {
  readonly url: string;
  stop(): Promise<void>;
}

/** A file of the repository. */
export function repository(path: string): string {
  return resolve(ROOT, path);
}

/** The path of `floodmark`: that of the variable, or the one that was built. */
export function program(): string {
  const target = process.env.CARGO_TARGET_DIR ?? resolve(ROOT, "target");
  const paths = [".venv/bin/floodmark", `${target}/release/floodmark`, `${target}/debug/floodmark`];
  return found(process.env.FLOODMARK_PROGRAM, paths, "floodmark", "FLOODMARK_PROGRAM");
}

/** A Python with torch and floodmark. */
export function python(): string {
  return found(process.env.FLOODMARK_PYTHON, [".venv/bin/python"], "python", "FLOODMARK_PYTHON");
}

function found(given: string | undefined, paths: string[], name: string, variable: string): string {
  const path = given ?? paths.map(repository).find((path) => existsSync(path));
  if (path && existsSync(path)) return path;
  throw new Error(`no \`${name}\` was built: \`make .venv/.extension\`, or set ${variable}`);
}

/** Runs `floodmark` to its end, and returns what it printed. */
export async function floodmark(...args: string[]): Promise<string> {
  return (await promisify(execFile)(program(), args)).stdout;
}

/** Starts `floodmark view --no-open`, and waits for the address that it prints. */
export async function serve(...args: string[]): Promise<Served> {
  const child = spawn(program(), ["view", "--no-open", ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const url = await address(child);
  return { url, stop: () => stop(child) };
}

/** Ends it as Ctrl-C does; it has to be gone before long. */
async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const ended = new Promise((done) => child.once("exit", done));
  child.kill("SIGINT");
  const patience = setTimeout(() => child.kill("SIGKILL"), 120_000);
  await ended;
  clearTimeout(patience);
  if (child.signalCode === "SIGKILL") throw new Error("floodmark view did not end with Ctrl-C");
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
