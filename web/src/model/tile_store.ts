// The tiles of one picture: requests a few at a time in order of priority, cancels outdated
// requests, and caches a limited number.

import { type ReadonlySignal, signal } from "@preact/signals";
import type { Answer, Query } from "../api/questions";
import { type ApiError, isCancelled } from "../api/source";
import type { AxisBy } from "../api/types.gen";
import { begin } from "../base/pending";
import { parent, type TileName } from "../base/tiles";
import { asApiError } from "./answer";
import { source } from "./recording";

export type TilePath = "timeline/tile" | "allocations/tile";

const MOST_AT_ONCE = 6;
const MOST_KEPT = 192;

export class TileStore<P extends TilePath> {
  private readonly path: P;
  private readonly about: Omit<Query<P>, "level" | "tile">;
  private readonly kept = new Map<string, Answer<P>>();
  private readonly asked = new Map<string, AbortController>();
  /** Tiles for which the source sent a coarser one: no finer one exists. */
  private readonly coarser = new Set<string>();
  private wanted: readonly TileName[] = [];
  private readonly count = signal(0);
  /** The error of the last failed tile. */
  readonly error = signal<ApiError | null>(null);

  constructor(path: P, about: Omit<Query<P>, "level" | "tile">) {
    this.path = path;
    this.about = about;
  }

  /** The axis of the tiles. */
  get axis(): AxisBy | undefined {
    return this.about.axis;
  }

  /** Changes whenever a tile arrives. */
  get arrived(): ReadonlySignal<number> {
    return this.count;
  }

  /** Whether no tile has arrived yet. */
  get isEmpty(): boolean {
    return this.kept.size === 0;
  }

  /** Whether all requested tiles have arrived, as fine as they exist. */
  get isComplete(): boolean {
    return this.wanted.every((name) => this.kept.has(text(name)) || this.coarser.has(text(name)));
  }

  /** The length of the axis of these tiles; 0 without tiles. */
  get length(): number {
    for (const { from, to, level } of this.kept.values()) return (to - from) * 2 ** level;
    return 0;
  }

  get(name: TileName): Answer<P> | undefined {
    return this.kept.get(text(name));
  }

  /** The tile, or the finest available one that contains it. */
  around(name: TileName): Answer<P> | undefined {
    for (let at: TileName | null = name; at; at = parent(at)) {
      const found = this.get(at);
      if (found) return found;
    }
    return undefined;
  }

  /** Requests these tiles in this order, and cancels all others. */
  want(names: readonly TileName[]): void {
    this.wanted = names;
    const texts = new Set(names.map(text));
    for (const [asked, control] of this.asked) {
      if (texts.has(asked)) continue;
      control.abort();
      this.asked.delete(asked);
    }
    for (const name of names) this.touch(text(name));
    this.askNext();
  }

  /** Cancels all requests. */
  close(): void {
    this.want([]);
  }

  private askNext(): void {
    for (const name of this.wanted) {
      if (this.asked.size >= MOST_AT_ONCE) return;
      const named = text(name);
      if (this.kept.has(named) || this.coarser.has(named) || this.asked.has(named)) continue;
      void this.ask(name, named);
    }
  }

  private async ask(name: TileName, named: string): Promise<void> {
    const control = new AbortController();
    this.asked.set(named, control);
    const end = begin();
    try {
      const query = { ...this.about, ...name } as unknown as Query<P>;
      const found = await source().ask(this.path, query, control.signal);
      if (control.signal.aborted) return;
      this.keep(name, found);
    } catch (error) {
      if (isCancelled(error) || control.signal.aborted) return;
      this.coarser.add(named);
      this.error.value = asApiError(error);
    } finally {
      if (this.asked.get(named) === control) this.asked.delete(named);
      this.askNext();
      end();
    }
  }

  private keep(name: TileName, found: Answer<P>): void {
    if (found.level !== name.level || found.tile !== name.tile) this.coarser.add(text(name));
    this.kept.set(text(found), found);
    for (const oldest of this.kept.keys()) {
      if (this.kept.size <= MOST_KEPT) break;
      if (oldest !== "0/0") this.kept.delete(oldest);
    }
    this.count.value += 1;
  }

  private touch(named: string): void {
    const found = this.kept.get(named);
    if (!found) return;
    this.kept.delete(named);
    this.kept.set(named, found);
  }
}

function text(name: TileName): string {
  return `${name.level}/${name.tile}`;
}
