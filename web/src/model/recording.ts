// The list of recordings, and the chosen one.

import { batch, computed, signal } from "@preact/signals";
import { ApiError, type Source } from "../api/source";
import type { DeviceSummary, TraceCard, Traces } from "../api/types.gen";
import { during } from "../base/pending";
import { deviceField, traceField } from "./address";

/** The source of answers. Set once, before anything is shown. */
const asked = signal<Source | null>(null);
export function source(): Source {
  const value = asked.peek();
  if (!value) throw new Error("no source yet");
  return value;
}

export const traces = signal<Traces | null>(null);
export const failure = signal<ApiError | null>(null);

/** Whether there are recordings to compare. */
export const areSeveral = computed(() => (traces.value?.traces.length ?? 0) > 1);

/** The chosen recording; by default the first with a plan or a failed allocation. */
export const card = computed<TraceCard | null>(() => {
  const all = traces.value?.traces ?? [];
  const wanted = traceField.value;
  if (wanted !== null) return all.find((one) => one.id === wanted) ?? all[0] ?? null;
  return all.find((one) => one.has_plan || one.failed_device !== null) ?? all[0] ?? null;
});

/** The chosen device. */
export const device = computed<DeviceSummary | null>(() => {
  const here = card.value;
  if (!here) return null;
  const wanted = deviceField.value || here.failed_device || here.default_device;
  const all = here.summary.devices;
  return (
    all.find((one) => one.device === wanted) ??
    all.find((one) => one.device === here.default_device) ??
    all[0] ??
    null
  );
});

/** The recording and device for requests, as one value that changes only with its content. */
export const subject = computed<Subject | null>(() => {
  const here = card.value;
  const on = device.value;
  if (!here || !on) return null;
  const next = {
    trace: here.id,
    device: on.device,
    seconds: here.summary.seconds,
    revision: here.revision,
  };
  if (last && same(last, next)) return last;
  last = next;
  return next;
});
let last: Subject | null = null;

/** The same for the device whose allocation failed; null if none failed. */
export const failed = computed<Subject | null>(() => {
  const here = card.value;
  if (!here || here.failed_device === null) return null;
  const { id, revision, failed_device, summary } = here;
  return { trace: id, device: failed_device, seconds: summary.seconds, revision };
});

export interface Subject {
  readonly trace: number;
  readonly device: string;
  /** The duration of the recording. */
  readonly seconds: number;
  /** Changes when the recording has grown. */
  readonly revision: number;
}

/** Opens a source and requests the list of recordings. */
export async function open(from: Source): Promise<void> {
  asked.value = from;
  await refresh();
}

/** Requests the list again after a recording has grown. */
export async function refresh(): Promise<void> {
  try {
    const found = await during(source().ask("traces", {}));
    batch(() => {
      traces.value = found;
      failure.value = null;
    });
  } catch (error) {
    failure.value = error instanceof ApiError ? error : new ApiError(String(error));
  }
}

function same(one: Subject, other: Subject): boolean {
  return (
    one.trace === other.trace &&
    one.device === other.device &&
    one.seconds === other.seconds &&
    one.revision === other.revision
  );
}
