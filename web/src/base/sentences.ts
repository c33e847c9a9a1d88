// A chosen time as a sentence, in the terminal's words.

import { formatBytes } from "./bytes";
import { shortener } from "./paths";

/** The fields of a chosen time and its totals that a sentence needs. */
export interface MomentTotals {
  readonly device: string;
  readonly what: "peak" | "oom" | "end" | "time" | "step";
  readonly seconds: number;
  readonly step: number | null;
  readonly phase: string | null;
  readonly module: string | null;
  readonly request?: { readonly bytes: number; readonly location: string | null };
  readonly allocated: number;
  readonly reserved: number | null;
}

/** `Peak of cuda:0: 13.54 GiB allocated, 14.20 GiB reserved, in step 3, backward of mlp, at 1.234 s`. */
export function momentSentence(moment: MomentTotals): string {
  const begin = {
    peak: `Peak of ${moment.device}:`,
    oom: `Out of memory on ${moment.device}: ${request(moment)}with`,
    end: `End on ${moment.device}:`,
    time: `Memory of ${moment.device}:`,
    step: `Peak of step ${moment.step} on ${moment.device}:`,
  }[moment.what];
  const reserved = moment.reserved === null ? "" : `, ${formatBytes(moment.reserved)} reserved`;
  return `${begin} ${formatBytes(moment.allocated)} allocated${reserved}, ${whenSentence(moment)}`;
}

/** The fields of a failed allocation that a sentence needs. */
export interface FailedTotals extends Omit<MomentTotals, "what"> {
  /** Reserved by torch and free; null if nothing is reserved. */
  readonly free: number | null;
  /** Bytes that torch could still reserve; null if unknown. */
  readonly unreserved: number | null;
  /** The limit of torch's reserved bytes. */
  readonly limit: number | null;
}

/** `Out of memory on cuda:0: 2.000 GiB requested at train.py:3 (main), 12.00 MiB free in torch's segments, 1.000 GiB not reserved, limit 16.00 GiB, in step 3, at 1.234 s`. */
export function failureSentence(failed: FailedTotals): string {
  const free = failed.free === null ? "" : `${formatBytes(failed.free)} free in torch's segments, `;
  const rest = failed.unreserved === null ? "" : `${formatBytes(failed.unreserved)} not reserved, `;
  const limit = failed.limit === null ? "" : `limit ${formatBytes(failed.limit)}, `;
  return `Out of memory on ${failed.device}: ${request(failed)}${free}${rest}${limit}${whenSentence(failed)}`;
}

/** `in step 3, backward of mlp, at 1.234 s`. */
export function whenSentence(
  moment: Pick<MomentTotals, "seconds" | "step" | "phase" | "module">,
): string {
  const step = moment.step === null ? "" : `in step ${moment.step}, `;
  return `${step}${doing(moment.phase, moment.module)}at ${moment.seconds.toFixed(3)} s`;
}

/** `step 3`, or `step 3, not finished` where the program failed in it or the recording stopped. */
export function stepName(step: { readonly number: number; readonly is_finished: boolean }): string {
  return `step ${step.number}${step.is_finished ? "" : ", not finished"}`;
}

/** A sentence with a capital letter; a name at its beginning stays unchanged: `train.py:3 …`. */
export function capital(sentence: string): string {
  return sentence.replace(/^[a-z]+(?=[ ,;:]|$)/, (word) => word[0]?.toUpperCase() + word.slice(1));
}

/** The shown name of a phase. */
export function phaseName(phase: string): string {
  return phase === "outside" ? "outside forward/backward/optimizer" : phase;
}

/** The shown name of a group: only phases have a different one. */
export function groupName(by: string, name: string): string {
  return by === "phase" ? phaseName(name) : name;
}

function doing(phase: string | null, module: string | null): string {
  if (phase === "outside") return `${phaseName(phase)}, `;
  if (phase !== null) return module === null ? `${phase}, ` : `${phase} of ${module}, `;
  return module === null ? "" : `in ${module}, `;
}

function request(moment: Pick<MomentTotals, "request">): string {
  if (!moment.request) return "";
  const { location: at } = moment.request;
  const location = at === null ? "" : ` at ${shortener([at])(at)}`;
  return `${formatBytes(moment.request.bytes)} requested${location}, `;
}
