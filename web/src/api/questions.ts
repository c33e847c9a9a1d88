// Every request of the page: its path, its parameters and its answer.

import type {
  AdviceReport,
  AllocationCard,
  AllocationTile,
  AnnotatedFile,
  AxisBy,
  Bands,
  Diff,
  DiffCurves,
  DiffTree,
  FragmentationCurve,
  Hit,
  Icicle,
  Lifetimes,
  OomReport,
  Plan,
  RangeChanges,
  RankLines,
  Ranks,
  Report,
  Sandwich,
  Segments,
  SimulatedSegments,
  Simulation,
  SourceFiles,
  Steps,
  Timeline,
  TimelineTile,
  Traces,
} from "./types.gen";

/** A chosen time: `peak`, `end`, `oom`, or seconds since the recording began. */
export type At = "peak" | "end" | "oom" | number;

interface OfTrace {
  trace: number;
}
interface OfDevice extends OfTrace {
  device: string;
}
interface Grouped extends OfDevice {
  by: string;
}
/** Parameters of a comparison: two recordings, each on a device and at a time. */
interface OfTwo {
  a: number;
  b: number;
  device_a: string;
  device_b: string;
  at_a: At;
  at_b: At;
}
interface Framed {
  /** `all` to include frames of frameworks. */
  frames?: string;
}
interface Tree extends Framed {
  by: "stack" | "module";
}
/** Parameters of a picture over time; the default axis is plain time. */
interface Along {
  axis?: AxisBy | undefined;
}
interface Tile extends Along {
  level: number;
  tile: number;
}

/** Path → query and answer. */
export interface Questions {
  traces: { query: Record<never, never>; answer: Traces };
  timeline: { query: Grouped & Along; answer: Timeline };
  "timeline/tile": { query: Grouped & Tile; answer: TimelineTile };
  bands: { query: OfDevice; answer: Bands };
  "allocations/tile": { query: OfDevice & Tile; answer: AllocationTile };
  hit: { query: Grouped & { seconds: number; bytes: number }; answer: Hit };
  allocation: { query: OfTrace & { id: number }; answer: AllocationCard };
  report: { query: Grouped & Framed & { at: At; top?: number }; answer: Report };
  icicle: { query: OfDevice & Tree & { at: At }; answer: Icicle };
  sandwich: {
    query: OfDevice & Framed & { at: At; function?: string; file?: string };
    answer: Sandwich;
  };
  segments: { query: OfDevice & { at: At }; answer: Segments };
  "segments/simulated": { query: OfDevice & { at: At; conf: string }; answer: SimulatedSegments };
  fragmentation: { query: OfDevice; answer: FragmentationCurve };
  steps: { query: OfDevice; answer: Steps };
  lifetimes: { query: OfDevice & { from: number; to: number; top?: number }; answer: Lifetimes };
  "source/files": { query: OfDevice & { at: At }; answer: SourceFiles };
  source: { query: OfDevice & { at: At; file: string }; answer: AnnotatedFile };
  range: { query: Grouped & { from: number; to: number; top?: number }; answer: RangeChanges };
  diff: { query: OfTwo & Framed & { by: string }; answer: Diff };
  "diff/curves": { query: OfTwo; answer: DiffCurves };
  "diff/tree": { query: OfTwo & Tree; answer: DiffTree };
  ranks: { query: Record<never, never>; answer: Ranks };
  "ranks/lines": { query: Record<never, never>; answer: RankLines };
  oom: { query: OfDevice; answer: OomReport };
  advice: { query: OfDevice; answer: AdviceReport };
  sweep: { query: OfDevice; answer: Simulation };
  plan: { query: OfTrace; answer: Plan };
}

export type Path = keyof Questions;
export type Query<P extends Path> = Questions[P]["query"];
export type Answer<P extends Path> = Questions[P]["answer"];

/** A request as text: `report?trace=0&device=cpu&by=line&at=peak`. */
export function questionText<P extends Path>(path: P, query: Query<P>): string {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) pairs.set(name, String(value));
  }
  const text = pairs.toString();
  return text === "" ? path : `${path}?${text}`;
}
