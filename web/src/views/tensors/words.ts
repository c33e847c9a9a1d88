// Lifetimes as sentences.

import type { Lifetimes } from "../../api/types.gen";
import { counted, formatBytes, formatCount } from "../../base/bytes";
import { formatDuration, formatSeconds } from "../../base/seconds";
import { phaseName } from "../../base/sentences";
import type { Tensor } from "./draw";

type Rows = Lifetimes["rows"];

/**
 * `The 400 largest tensors of 61 modules live in this window; 3,660 smaller ones, 12.00 MiB added up, not shown`. A saved
 * page has the largest of the whole recording: `within` are those of the window.
 */
export function lifetimesSentence(answer: Lifetimes, within: Rows = answer.rows): string {
  const [count, shown] = [countTensors(answer.rows), countTensors(within)];
  const modules = within.filter((row) => isModule(row.module)).length;
  const of = modules > 0 ? ` of ${counted(modules, "module")}` : "";
  const { count: more, bytes } = answer.left_out;
  if (shown < count)
    return `${counted(shown, "tensor")}${of} live in this window, out of the ${formatCount(count)} largest of the recording`;
  const rest =
    more > 0 ? `; ${counted(more, "smaller one")}, ${formatBytes(bytes)} added up, not shown` : "";
  return `The ${counted(count, "largest tensor")}${of} live in this window${rest}`;
}

export function countTensors(rows: Rows): number {
  return rows.reduce((sum, row) => sum + row.tensors.length, 0);
}

/** Whether a row has a module: tensors without one share a row. */
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
  if (tensor.phase) facts.push(["Phase", phaseName(tensor.phase)]);
  return facts;
}
