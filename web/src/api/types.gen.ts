// What the server answers, field by field.

export interface Frame { file: string; line: number; function: string }
export interface DeviceInfo { device: string; name: string; total_bytes: number; compute_capability: string; multiprocessors: number }
export interface Header {
  floodmark: string; session: string; started_unix_micros: number; pid: number; command: string[]; host: string;
  rank: number | null; world_size: number | null; local_rank: number | null; python: string; torch: string; cuda: string;
  driver: string; allocator_backend: string; allocator_conf: string; devices: DeviceInfo[]; recorded: string[];
  not_recorded: string[]; has_base: boolean; phantom?: unknown;
}
export interface Request { bytes: number; where: string | null }
export interface Moment {
  what: "peak" | "oom" | "end" | "time"; seconds: number; step: number | null; phase: string | null; module: string | null;
  request?: Request;
}
export interface DeviceSummary {
  device: string; name: string; total: number | null; allocations: number; peak: number; at: Moment;
  reserved: number | null; reserved_peak: number | null; end: number;
}
export interface Summary {
  floodmark: string; header: Header; is_finished: boolean; seconds: number; events: number; allocations: number;
  steps: number; threads: number; failed_requests: number; devices: DeviceSummary[]; losses: string[];
}
export interface TraceCard { id: number; name: string; rank: number | null; revision: number; default_device: string; summary: Summary }
export interface Traces { floodmark: string; follows: boolean; moments: Record<string, Record<string, number[]>> | null; traces: TraceCard[] }

export interface Levels { seconds: number; allocated: number; active: number | null; reserved: number | null }
export interface Group { name: string; peak: number }
export interface Timeline {
  device: string; by: string; seconds: number; deepest_level: number; columns: number; groups: Group[]; peak: Levels;
  total: number | null;
}
export interface TimelineTile {
  level: number; tile: number; from: number; to: number; groups: number[][]; allocated: number[];
  active: number[] | null; reserved: number[] | null; lowest: number[]; events: number[];
}
export interface Stretch { name: string; from: number; to: number }
export interface Marker { seconds: number; kind: "step" | "phase" | "mark" | "oom"; name: string }
export interface StepSpan { number: number; from: number; to: number }
export interface Bands { stretches: Stretch[]; markers: Marker[]; steps: StepSpan[]; skipped: number }
export interface Shape { id: number; category: number; bytes: number; xs: number[]; ys: number[] }
export interface AllocationTile { level: number; tile: number; from: number; to: number; shapes: Shape[]; categories: string[]; rest: number[] }
export interface Hit { allocation: number | null; group: number | null }
export interface Partner { kind: "forward" | "backward"; ids: number[]; frames: Frame[] }
export interface AllocationCard {
  id: number; device: string; bytes: number; requested: number | null; address: string; stream: number | string | null;
  pool: string | number | null; category: string; phase: string | null; step: number | null; module: string | null; op: string | null;
  name: string | null; frames: Frame[]; backward: boolean; made_seconds: number | null; saved: boolean;
  freed_seconds: number | null; before_recording: boolean; partner: Partner | null;
}

export interface Fragmentation {
  rounding: number; split: number; unusable: number; free: number; pieces: number; largest_free: number; reserved: number; ratio: number;
}
export interface FragmentationAt extends Fragmentation { step: number | null; seconds: number }
export interface FragmentationReport { largest_request: number; at: Fragmentation; over_time: FragmentationAt[] }
export interface Largest { bytes: number; where: string }
export interface Row {
  bytes: number; cumulative: number; count: number; median: number; where: string;
  file?: string | null; line?: number | null; function?: string | null; module?: string | null; backward?: boolean;
  frames?: Frame[]; own?: number; depth?: number; class?: string | null; op?: string | null; phase?: string | null;
  category?: string; largest?: Largest[]; name?: string | null; shape?: string | null; dtype?: string | null;
  step?: number | null; made_seconds?: number | null; saved?: boolean; freed_seconds?: number | null;
}
export interface Report {
  floodmark: string; format: number; device: string; by: string; at: Moment; allocated: number; active: number | null;
  reserved: number | null; requested: number | null; losses: string[]; fragmentation?: FragmentationReport;
  total_rows: number; rows: Row[];
}
export interface IcicleNode { name: string; file: string | null; line: number | null; bytes: number; own: number; count: number; children: IcicleNode[] }
export interface Icicle { at: Moment; total: number; root: IcicleNode }

export interface SegmentBlock {
  offset: number; bytes: number; state: "live" | "awaiting_streams" | "cached" | "unmapped"; category: number | null; allocation: number | null;
}
export interface Segment { address: string; bytes: number; pool: string | number; stream: number | string; kind: string; blocks: SegmentBlock[] }
export interface Segments {
  at: Moment; totals: Levels; segments: Segment[]; categories: string[]; fragmentation: FragmentationReport; skipped: number;
}
export interface PhasePeak { name: string; peak: number }
export interface Step { number: number; from: number; to: number; peak: number; end: number; growth: number; phases: PhasePeak[] }
export interface Leak {
  bytes_per_step: number; growth: number; bytes: number; count: number; since: number; steps: number; grew: number;
  category: string; where: string; file: string | null; line: number | null; function: string | null; module: string | null;
  backward: boolean; frames: Frame[];
}
export interface Leaks { floodmark: string; format: number; device: string; steps: number; growth: number; losses: string[]; total_rows: number; rows: Leak[] }
export interface Steps { steps: Step[]; leaks: Leaks }
export interface LifetimeTensor {
  id: number; name: string | null; bytes: number; category: string; phase: string | null; made: number; saved: boolean;
  kept_until: number | null; freed: number | null;
}
export interface LifetimeRow { module: string; tensors: LifetimeTensor[] }
export interface LeftOut { count: number; bytes: number }
export interface Lifetimes { rows: LifetimeRow[]; left_out: LeftOut }

export interface Total { a: number; b: number; change: number; percent: number | null }
export interface DiffRow { change: number; a: number; b: number; count_a: number; count_b: number; where: string }
export interface Diff {
  floodmark: string; format: number; device: string; by: string; at: { a: Moment; b: Moment }; allocated: Total; active: Total | null;
  reserved: Total | null; peaks: { allocated: Total; reserved: Total | null }; losses: { a: string[]; b: string[] };
  unchanged_rows: number; total_rows: number; rows: DiffRow[];
}
export interface Rank { trace: number; rank: number | null; name: string; device: string; peak: number; reserved_peak: number | null; end: number; is_outlier: boolean }
export interface Ranks { ranks: Rank[]; median: number }
export interface Advice {
  kind: string; finding: string; change: string; saves_allocated: number; saves_reserved: number | null;
  peak_allocated: number; peak_reserved: number | null;
}
export interface AdviceReport {
  floodmark: string; format: number; device: string; peak_allocated: number; peak_reserved: number | null; failed_requests: number;
  is_reproduced: boolean | null; notes: string[]; advice: Advice[]; losses: string[];
}
export interface FailedRequest { event: number; seconds: number; requested: number }
export interface SimulatedRun {
  alloc_conf: string; memory: number | null; peak_allocated: number; peak_reserved: number; waste: number; retries: number; oom: FailedRequest | null;
}
export interface RecordedRun { alloc_conf: string; memory: number | null; peak_allocated: number; peak_reserved: number; retries: number; oom: FailedRequest | null }
export interface Simulation {
  floodmark: string; format: number; device: string; torch: string; recorded: RecordedRun; is_reproduced: boolean;
  runs: SimulatedRun[]; best: number | null; losses: string[];
}
export interface Grown { trace: number; revision: number; events: number; seconds: number }
export interface Problem { error: string; hint: string | null }
