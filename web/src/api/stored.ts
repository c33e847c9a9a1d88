// Answers that were stored in the page when it was saved. Only some times and tiles are stored. A
// request for a time gets the nearest one, for a fine tile the coarser one around it (which has its
// own level and span), for a window the whole recording; any other request that was not stored
// throws `NotSaved`.

import type { Answer, Path, Query } from "./questions";
import { questionText } from "./questions";
import { ApiError, NotSaved, type Source } from "./source";
import type { Traces } from "./types.gen";

/** Request as text → answer. */
export type Stored = Readonly<Record<string, unknown>>;

export class StoredSource implements Source {
  readonly isStored = true;
  private readonly answers: Map<string, unknown>;

  constructor(stored: Stored) {
    this.answers = new Map(Object.entries(stored).map(([text, answer]) => [sorted(text), answer]));
  }

  async ask<P extends Path>(path: P, query: Query<P>): Promise<Answer<P>> {
    for (const candidate of this.candidates(path, query)) {
      const found = this.answers.get(sorted(questionText(path, candidate)));
      if (found !== undefined) return opened<P>(found);
    }
    throw new NotSaved();
  }

  follow(): () => void {
    return () => {};
  }

  private *candidates<P extends Path>(path: P, query: Query<P>): Generator<Query<P>> {
    yield query;
    if (path === "timeline/tile" || path === "allocations/tile") yield* coarser(query);
    if ("at" in query) yield* this.nearest(query);
    if ("from" in query) yield* this.whole(query);
    if ("top" in query) yield* this.candidates(path, without(query, "top"));
  }

  /** The same request for the whole recording. */
  private *whole<Q extends object>(query: Q): Generator<Q> {
    const { trace } = query as unknown as { trace: number };
    const to = this.traces()?.traces.find((card) => card.id === trace)?.summary.seconds;
    if (to !== undefined) yield { ...query, from: 0, to };
  }

  private traces(): Traces | undefined {
    return this.answers.get("traces") as Traces | undefined;
  }

  private *nearest<Q extends object>(query: Q): Generator<Q> {
    const { at, trace, device } = query as unknown as {
      at: unknown;
      trace: number;
      device: string;
    };
    const known = this.traces()?.moments?.[trace]?.[device] ?? [];
    if (typeof at !== "number") return;
    const byDistance = [...known].sort((one, other) => Math.abs(one - at) - Math.abs(other - at));
    for (const moment of byDistance) yield { ...query, at: moment };
    yield { ...query, at: "peak" };
  }
}

function* coarser<Q extends object>(query: Q): Generator<Q> {
  let { level, tile } = query as unknown as { level: number; tile: number };
  while (level > 0) {
    level -= 1;
    tile = Math.floor(tile / 2);
    yield { ...query, level, tile };
  }
}

function without<Q extends object>(query: Q, name: string): Q {
  return Object.fromEntries(Object.entries(query).filter(([key]) => key !== name)) as Q;
}

/** A request with its fields in a fixed order, without `api/`. */
function sorted(text: string): string {
  const [path, query = ""] = text.replace(/^api\//, "").split("?") as [string, string?];
  const pairs = new URLSearchParams(query);
  pairs.sort();
  const rest = pairs.toString();
  return rest === "" ? path : `${path}?${rest}`;
}

/** The stored answer; throws if an error was stored in its place. */
function opened<P extends Path>(found: unknown): Answer<P> {
  if (typeof found === "object" && found !== null && "error" in found) {
    const { error, hint } = found as { error: string; hint?: string | null };
    throw new ApiError(error, hint ?? null);
  }
  return found as Answer<P>;
}
