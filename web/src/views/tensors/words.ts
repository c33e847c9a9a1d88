// Lifetimes in words.

import type { Lifetimes } from "../../api/types.gen";
import { counted, formatBytes } from "../../base/bytes";
import { formatDuration, formatSeconds } from "../../base/seconds";
import type { Tensor } from "./draw";

/** `400 tensors of 61 modules lived in this window; 3,660 smaller ones, 12.00 MiB, are not shown`. */
export function lifetimesSentence(answer: Lifetimes): string {
  const count = answer.rows.reduce((sum, row) => sum + row.tensors.length, 0);
  const modules = answer.rows.filter((row) => isModule(row.module)).length;
  const of = modules > 0 ? ` of ${counted(modules, "module")}` : "";
  const { count: more, bytes } = answer.left_out;
  const rest =
    more > 0 ? `; ${counted(more, "smaller one")}, ${formatBytes(bytes)} added up, not shown` : "";
  return `The ${counted(count, "largest tensor")}${of} live in this window${rest}`;
}

/** What has no module is in a row of its own, whose name is no name. */
function isModule(name: string | null): boolean {
  return name !== null && name !== "" && name !== "before recording" && !name.startsWith("(");
}

/** Names and values of a tensor's life. */
export function lifeFacts(tensor: Tensor, end: number): [string, string][] {
  const allocated = tensor.allocated_seconds ?? 0;
  const facts: [string, string][] = [
    ["Bytes", formatBytes(tensor.bytes)],
    [
      "Allocated",
      tensor.allocated_seconds === null ? "before the recording" : formatSeconds(allocated),
    ],
  ];
  if (tensor.saved_seconds !== null)
    facts.push(["Saved for backward", formatSeconds(tensor.saved_seconds)]);
  if (tensor.last_use_seconds !== null)
    facts.push(["Last known use", formatSeconds(tensor.last_use_seconds)]);
  facts.push(
    ["Freed", tensor.freed_seconds === null ? "never" : formatSeconds(tensor.freed_seconds)],
    ["Lived", formatDuration((tensor.freed_seconds ?? end) - allocated)],
  );
  if (tensor.last_use_seconds !== null) {
    const idle = (tensor.freed_seconds ?? end) - tensor.last_use_seconds;
    facts.push(["Idle after its last use", formatDuration(Math.max(0, idle))]);
  }
  if (tensor.phase) facts.push(["Phase", tensor.phase]);
  return facts;
}
