// Answers that follow their request: a changed request is sent again and the outdated one
// cancelled; the old answer stays until the new one arrives.

import { effect, type ReadonlySignal, signal } from "@preact/signals";
import type { Answer, Path, Query } from "../api/questions";
import { questionText } from "../api/questions";
import { ApiError, isCancelled } from "../api/source";
import { begin } from "../base/pending";
import { source } from "./recording";

export interface Asked<T> {
  /** The newest answer; null before the first. */
  readonly value: T | null;
  /** The error of the newest request, if it failed. */
  readonly error: ApiError | null;
  /** Whether `value` belongs to an older request. */
  readonly isOld: boolean;
}

export interface Question<P extends Path> {
  readonly path: P;
  readonly query: Query<P>;
  /** Changes when the same request has a different answer. */
  readonly revision?: number;
}

/** The number of cached answers, so that going back is immediate. */
const MOST_KEPT = 64;
const kept = new Map<string, unknown>();

/** Requests now and whenever `question` changes; null requests nothing. `dispose` ends it. */
export function follow<P extends Path>(
  question: () => Question<P> | null,
  delayMillis = 0,
): { asked: ReadonlySignal<Asked<Answer<P>>>; dispose: () => void } {
  const asked = signal<Asked<Answer<P>>>({ value: null, error: null, isOld: false });
  let present = "";
  let callOff = () => {};
  const dispose = effect(() => {
    const next = question();
    const text = next ? textOf(next) : "";
    if (text === present) return;
    present = text;
    callOff();
    callOff = () => {};
    if (!next) {
      asked.value = { value: null, error: null, isOld: false };
      return;
    }
    const known = kept.get(text) as Answer<P> | undefined;
    if (known !== undefined) {
      remember(text, known);
      asked.value = { value: known, error: null, isOld: false };
      return;
    }
    asked.value = { value: asked.peek().value, error: null, isOld: true };
    callOff = askLater(next, text, delayMillis, (found) => {
      asked.value =
        found instanceof ApiError
          ? { value: null, error: found, isOld: false }
          : { value: found, error: null, isOld: false };
    });
  });
  return {
    asked,
    dispose: () => {
      callOff();
      dispose();
    },
  };
}

/** Requests once; answers are cached. */
export async function ask<P extends Path>(
  question: Question<P>,
  signal?: AbortSignal,
): Promise<Answer<P>> {
  const text = textOf(question);
  const known = kept.get(text) as Answer<P> | undefined;
  if (known !== undefined) return known;
  const found = await source().ask(question.path, question.query, signal);
  remember(text, found);
  return found;
}

function askLater<P extends Path>(
  question: Question<P>,
  text: string,
  delayMillis: number,
  done: (found: Answer<P> | ApiError) => void,
): () => void {
  const end = begin();
  const control = new AbortController();
  const timer = setTimeout(async () => {
    try {
      const found = await source().ask(question.path, question.query, control.signal);
      if (control.signal.aborted) return;
      remember(text, found);
      done(found);
    } catch (error) {
      if (!control.signal.aborted && !isCancelled(error)) done(asApiError(error));
    } finally {
      end();
    }
  }, delayMillis);
  return () => {
    clearTimeout(timer);
    control.abort();
    end();
  };
}

export function asApiError(error: unknown): ApiError {
  return error instanceof ApiError
    ? error
    : new ApiError(error instanceof Error ? error.message : String(error));
}

function textOf<P extends Path>(question: Question<P>): string {
  return `${question.revision ?? 0} ${questionText(question.path, question.query)}`;
}

function remember(text: string, answer: unknown): void {
  kept.delete(text);
  kept.set(text, answer);
  for (const oldest of kept.keys()) {
    if (kept.size <= MOST_KEPT) break;
    kept.delete(oldest);
  }
}
