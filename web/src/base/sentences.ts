// A moment in words, as the terminal says it.

import { formatBytes } from "./bytes";
import { shortPath } from "./paths";

/** What a sentence needs of a moment and the totals beside it. */
export interface Told {
  readonly device: string;
  readonly what: "peak" | "oom" | "end" | "time";
  readonly seconds: number;
  readonly step: number | null;
  readonly phase: string | null;
  readonly module: string | null;
  readonly request?: { readonly bytes: number; readonly location: string | null };
  readonly allocated: number;
  readonly reserved: number | null;
}

/** `Peak of cuda:0: 13.54 GiB allocated, 14.20 GiB reserved, at 1.234 s in step 3, backward of mlp`. */
export function momentSentence(told: Told): string {
  const begin = {
    peak: `Peak of ${told.device}:`,
    oom: `Out of memory on ${told.device}: ${request(told)}with`,
    end: `End on ${told.device}:`,
    time: `Memory of ${told.device}:`,
  }[told.what];
  const reserved = told.reserved === null ? "" : `, ${formatBytes(told.reserved)} reserved`;
  return `${begin} ${formatBytes(told.allocated)} allocated${reserved}, ${whenSentence(told)}`;
}

/** `at 1.234 s in step 3, backward of mlp`. */
export function whenSentence(told: Pick<Told, "seconds" | "step" | "phase" | "module">): string {
  const step = told.step === null ? "" : ` in step ${told.step}`;
  return `at ${told.seconds.toFixed(3)} s${step}${doing(told.phase, told.module)}`;
}

function doing(phase: string | null, module: string | null): string {
  if (phase === "outside") return ", outside the model";
  if (phase !== null) return module === null ? `, ${phase}` : `, ${phase} of ${module}`;
  return module === null ? "" : `, in ${module}`;
}

function request(told: Told): string {
  if (!told.request) return "";
  const place = told.request.location === null ? "" : ` at ${shortPath(told.request.location)}`;
  return `${formatBytes(told.request.bytes)} requested${place}, `;
}
