// Where answers come from: a server, or the saved page itself.

import type { Answer, Path, Query } from "./questions";
import type { Grown } from "./types.gen";

export interface Source {
  /** Whether answers were stored with the page: then only some times are available. */
  readonly isStored: boolean;
  /** Requests an answer. Throws the source's [`ApiError`], or an `AbortError` after `signal`. */
  ask<P extends Path>(path: P, query: Query<P>, signal?: AbortSignal): Promise<Answer<P>>;
  /** Follows a growing recording; returns a function that stops. */
  follow(listener: Follower): () => void;
}

export interface Follower {
  grown(news: Grown): void;
  ended(): void;
  /** Called when the server stops answering, and when it answers again. */
  connected(isConnected: boolean): void;
}

/** An error that the source reported. */
export class ApiError extends Error {
  readonly hint: string | null;

  constructor(message: string, hint: string | null = null) {
    super(message);
    this.name = "ApiError";
    this.hint = hint;
  }
}

/** A saved page does not have this answer, which is not a fault. */
export class NotSaved extends ApiError {
  constructor() {
    super("a saved page does not have this", "open the recording with `floodmark view`");
    this.name = "NotSaved";
  }
}

/** Whether a request was cancelled, which is not a fault. */
export function isCancelled(error: unknown): boolean {
  return error instanceof Error && error.name === "AbortError";
}
