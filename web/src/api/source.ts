// Where answers come from: a server, or the saved page itself.

import type { Answer, Path, Query } from "./questions";
import type { Grown } from "./types.gen";

export interface Source {
  /** Whether answers are those that were stored with the page: then not every moment can be asked for. */
  readonly isStored: boolean;
  /** Asks. Throws an [`ApiError`] with what the source says, an `AbortError` when it was called off. */
  ask<P extends Path>(path: P, query: Query<P>, signal?: AbortSignal): Promise<Answer<P>>;
  /** Listens to a recording that grows; the function returned ends it. */
  follow(listener: Follower): () => void;
}

export interface Follower {
  grown(news: Grown): void;
  ended(): void;
  /** The server does not answer any more, or does so again. */
  connected(isConnected: boolean): void;
}

/** What went wrong, in the words of the source. */
export class ApiError extends Error {
  readonly hint: string | null;

  constructor(message: string, hint: string | null = null) {
    super(message);
    this.name = "ApiError";
    this.hint = hint;
  }
}

/** A saved page has some answers only: that is no fault. */
export class NotSaved extends ApiError {
  constructor() {
    super("a saved page does not have this", "open the recording with `floodmark view`");
    this.name = "NotSaved";
  }
}

/** Whether a question was called off, which is no fault. */
export function isCalledOff(error: unknown): boolean {
  return error instanceof Error && error.name === "AbortError";
}
