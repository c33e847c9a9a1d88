// Made from the Rust types by `make types`: not to be edited.

/** The list of traces. */
export type Traces = {
  /** The version of floodmark that wrote the answer. */
  floodmark: string;
  /** Whether the server follows the traces while they grow. */
  follows: boolean;
  /** The times, in seconds, for which a saved page has answers, by trace and device; null if every time has one. */
  moments: Record<string, Record<string, number[]>> | null;
  /** The traces. */
  traces: TraceCard[];
};

/** A trace in the list. */
export type TraceCard = {
  /** Its number, from 0. */
  id: number;
  /** Its name. */
  name: string;
  /** Its rank, if known. */
  rank: number | null;
  /** Changes when the trace grows. */
  revision: number;
  /** The device with the highest peak, GPUs first; null if nothing was allocated. */
  default_device: Device | null;
  /** The device of the last failed allocation; null if none failed. */
  failed_device: Device | null;
  /** Whether it has the answer of `floodmark plan`. */
  has_plan: boolean;
  /** The entries of `summary.losses` that miss no event: facts that were derived, not recorded. */
  derived: string[];
  /** Its summary. */
  summary: Summary;
};

/** A device, as torch writes it: `cpu`, `cuda:0`. */
export type Device = string;

/** The contents of a recording. */
export type Summary = {
  /** The version of floodmark that wrote the answer. */
  floodmark: string;
  /** Where the recording comes from. */
  header: Header;
  /** Whether the program finished the file. */
  is_finished: boolean;
  /** How the recording ended. */
  outcome: Outcome;
  /** How long it took. */
  seconds: number;
  /** How many events there are. */
  events: number;
  /** How many allocations were seen; those from before the recording are not counted. */
  allocations: number;
  /** How many steps ended. */
  steps: number;
  /** How many threads of the program have events. */
  threads: number;
  /** How many allocations failed. */
  failed_requests: number;
  /** Every device on which something was allocated, CPU first. */
  devices: DeviceSummary[];
  /** What the recording misses. */
  losses: Losses;
};

/** Where a recording comes from. */
export type Header = {
  /** The version of floodmark that wrote the file. */
  floodmark: string;
  /** Joins the file to its journal. */
  session: string;
  /** When the recording began, in microseconds since 1970. */
  started_unix_micros: number;
  /** The traced process. */
  pid: number;
  /** Its command line. */
  command: string[];
  /** The machine's name. */
  host: string;
  /** Its rank, under a launcher. */
  rank: number | null;
  /** How many ranks there are. */
  world_size: number | null;
  /** Its rank on this machine. */
  local_rank: number | null;
  /** `3.12.3`. */
  python: string;
  /** `2.11.0+cu130`; empty while torch is not imported. */
  torch: string;
  /** The CUDA version that torch was built with. */
  cuda: string;
  /** The driver's version. */
  driver: string;
  /** `native`, `cudaMallocAsync`, or a pluggable one. */
  allocator_backend: string;
  /** `PYTORCH_CUDA_ALLOC_CONF`, as the program saw it. */
  allocator_conf: string;
  /** The devices. */
  devices: DeviceInfo[];
  /** What was recorded beyond events: `stacks`, `ops`, …. */
  recorded: string[];
  /** What could not be recorded, one sentence each. */
  not_recorded: string[];
  /** Whether blocks from before the recording are in it. */
  has_initial_blocks: boolean;
  /** Which events of the recorder are in it; left out when all are. */
  window?: Window;
  /** The simulated GPU, where the recording is an estimate. */
  phantom?: Phantom;
  /** Changes that were applied to the program while it ran. */
  changes?: AppliedChange[];
  /** What a step computes, where it was counted. */
  cost?: StepCost;
};

/** A device that was visible to the program. */
export type DeviceInfo = {
  /** `cuda:0`. */
  device: string;
  /** Its name in the driver. */
  name: string;
  /** Its memory. */
  total_bytes: number;
  /** `9.0`. */
  compute_capability: string;
  /** How many multiprocessors it has. */
  multiprocessors: number;
  /** Its UUID, which NVML knows too; left out where torch does not give it. */
  uuid?: string;
};

/** The recorder's events that belong to a window. */
export type Window = {
  /** Its number among the windows of the process. */
  number: number;
  /** When it began, in the time of the journal. */
  start_nanos: number;
  /** Host memory too. */
  cpu: boolean;
  /** CUDA devices: a bit for each ordinal. */
  cuda: number;
  /** The Python stack of every allocation. */
  stacks: boolean;
  /** The operator of every allocation. */
  ops: boolean;
  /** Blocks of fake tensors, and not those that torch reports. */
  fake_tensors: boolean;
};

/** A simulated GPU. */
export type Phantom = {
  /** The engine that simulated it. */
  engine: Engine;
  /** The name of its GPU profile. */
  gpu: string;
  /** Whether estimates with that profile were compared with a real GPU. */
  is_checked: boolean;
  /** How the program ended. */
  ended: PhantomEnd;
  /** The error that ended it; empty when there was none. */
  error: string;
  /** The devices. */
  devices: PhantomDevice[];
  /** Values that the program read back and that were assumed, not computed. */
  reads: PhantomRead[];
  /** Calls that the phantom refused. */
  unsupported: UnsupportedCall[];
  /** What is assumed or left out, one sentence each. */
  notes: string[];
  /** Whether the program had blocks of fake tensors, which allocate nothing here. */
  has_fake_tensors: boolean;
};

/** The engine that simulates a GPU. */
export type Engine = "phantom" | "fake";

/** How a program on a simulated GPU ended. */
export type PhantomEnd = "unknown" | "done" | "steps" | "out_of_memory" | "failed";

/** A simulated device. */
export type PhantomDevice = {
  /** Which GPU of the machine it is, where the process sees only some of them. */
  index: number | null;
  /** Its memory in bytes. */
  capacity: number;
  /** The CUDA context. */
  context: number;
  /** The peak of memory allocated from the driver, by torch and by others, without the CUDA context. */
  peak_driver_bytes: number;
  /** What CUDA's libraries held then. Empty in files of versions that counted them as a part of the context. */
  libraries_at_peak: LibraryBytes[];
};

/** The device memory of a library of CUDA. */
export type LibraryBytes = {
  /** Which: `cuBLAS`. */
  library: string;
  /** The bytes. */
  bytes: number;
};

/** A value that was read back and was assumed, not computed. */
export type PhantomRead = {
  /** The file of the line that read it. */
  file: string;
  /** The number of that line. */
  line: number;
  /** The function of that line. */
  function: string;
  /** How often it was read. */
  count: number;
  /** The operator that computed the value. */
  op: string;
  /** The assumed value. */
  assumed: string;
  /** Why it was not computed. */
  reason: string;
};

/** A call that was refused. */
export type UnsupportedCall = {
  /** The library: `cudnn`. */
  library: string;
  /** The function. */
  name: string;
  /** How often it was called. */
  count: number;
};

/** A change that was requested with `--with`. */
export type AppliedChange = {
  /** The argument of `--with`: `checkpoint=12`. */
  change: string;
  /** What it was applied to: `12 of 24 × GPT2Block (transformer.h)`; empty when it was not applied. */
  target: string;
  /** Why it was not applied; empty when it was. */
  reason: string;
  /** Whether the program may become slower by it. */
  slows: boolean;
  /** Its effect on the results. */
  numerics: Numerics;
  /** Plain torch code with the same effect; empty when it was not applied. */
  patch: string;
  /** How many repeated blocks the model has, where the change counts them. */
  blocks: number | null;
  /** The bytes that it copied to the host, of all steps. */
  host_bytes: number;
};

/** The effect of a change on the results of a program. */
export type Numerics = "same" | "rounding" | "changed" | "training";

/** The counted computation of a program's last step. */
export type StepCost = {
  /** How many backward passes the program made, in all steps. */
  backward_passes: number;
  /** Operators of the same kind, summed. */
  operators: OperatorCost[];
  /** The processor time that the host takes for a step, in nanoseconds; null where it was not measured. */
  host_nanos: number | null;
};

/** Operators of one kind, data type and ratio of operations to bytes. */
export type OperatorCost = {
  /** Their kind. */
  kind: OperatorKind;
  /** The data type of their first tensor: `bfloat16`; `tf32` where torch computes products of `float32` in it. */
  dtype: string;
  /** How many there are. */
  count: number;
  /** Their floating-point operations. */
  flops: number;
  /** The bytes that they read and write. */
  bytes: number;
};

/** The kind of an operator. */
export type OperatorKind = "matmul" | "uneven_matmul" | "attention" | "convolution" | "grouped_convolution" | "host_copy" | "async_host_copy" | "elementwise" | "normalization" | "memory";

/** How a recording ended. */
export type Outcome = "finished" | "running" | "stopped_early" | "unfinished";

/** A recording's figures of one device. */
export type DeviceSummary = {
  /** Which. */
  device: Device;
  /** What the driver calls it; empty when not known. */
  name: string;
  /** Its memory, where known. */
  total: Bytes | null;
  /** How many allocations were seen. */
  allocations: number;
  /** Peak of allocated bytes. */
  peak: Bytes;
  /** When that was. */
  at: Moment;
  /** Reserved at that moment; null for the CPU. */
  reserved: Bytes | null;
  /** The peak of reserved bytes; null for the CPU. */
  reserved_peak: Bytes | null;
  /** What was allocated at the end. */
  end: Bytes;
  /** What was allocated when the recording began. */
  start: Bytes;
  /** The bytes of all allocations since then, those that were freed included. */
  allocated_total: Bytes;
};

/** A number of bytes. */
export type Bytes = number;

/** A time on a device. */
export type Moment = {
  /** Which time it is. */
  what: At;
  /** Seconds since the recording began. */
  seconds: number;
  /** The step, where there are steps. */
  step: number | null;
  /** The phase of the program, if known. */
  phase: string | null;
  /** The innermost module that was running, where that is known. */
  module: string | null;
  /** The failed allocation; for `oom` alone. */
  request?: Request;
};

/** Which time an answer is about: `time` is one that the question chose, `step` the peak of a step or of one phase of it. */
export type At = "peak" | "oom" | "end" | "time" | "step";

/** A failed allocation. */
export type Request = {
  /** The requested bytes. */
  bytes: Bytes;
  /** The line that requested it. */
  location: string | null;
};

/** What the recording misses, a sentence each; empty for a complete one. */
export type Losses = string[];

/** What a picture over time shows: the same for all its tiles. */
export type Timeline = {
  /** The device. */
  device: Device;
  /** What the bands are. */
  by: TimelineBy;
  /** How long the recording is. */
  seconds: number;
  /** Where in the picture a time lies; the bounds of tiles are positions on it. */
  axis: Axis;
  /** The last level: there a column is a few microseconds. */
  deepest_level: number;
  /** How many columns a tile has. */
  columns: number;
  /** The bands from the bottom up: the highest peak first, or of categories those that stay, such as parameters; `other` is the last where there are more. */
  groups: TimelineGroup[];
  /** The highest point. */
  peak: Levels;
  /** The memory of the device, where known. */
  total: Bytes | null;
};

/** What the bands of a timeline are. */
export type TimelineBy = "category" | "module" | "phase" | "line";

/** The axis of a picture over time. Between two knots it is straight. */
export type Axis = {
  /** What is spread evenly. */
  by: AxisBy;
  /** The position of the end. */
  length: number;
  /** In order; the first is the beginning of the recording and the last its end. */
  knots: AxisKnot[];
  /** The idle stretches that are short. */
  breaks: AxisBreak[];
};

/** The unit that is spread evenly along an axis. */
export type AxisBy = "time" | "events" | "steps";

/** A time, and where it lies. */
export type AxisKnot = {
  /** Seconds since the recording began. */
  seconds: number;
  /** Seconds, events or steps from the left. */
  position: number;
};

/** An idle stretch that the axis makes short. */
export type AxisBreak = {
  /** When it begins, in seconds. */
  from: number;
  /** When it ends. */
  to: number;
};

/** A band of the picture. */
export type TimelineGroup = {
  /** Its subject. */
  name: string;
  /** Its peak. */
  peak: Bytes;
};

/** The totals of a device right after an event. */
export type Levels = {
  /** Since the recording began. */
  seconds: number;
  /** torch's total of allocated bytes. */
  allocated: Bytes;
  /** torch's total of active bytes; null for the CPU. */
  active: Bytes | null;
  /** torch's total of reserved bytes; null for the CPU, and until the trace has it. */
  reserved: Bytes | null;
};

/** A part of the picture. Every list has a number for each column. */
export type TimelineTile = {
  /** Its level: there are 2^level tiles on it. */
  level: number;
  /** Which it is. */
  tile: number;
  /** Where it begins on the axis: in seconds where that is time. */
  from: number;
  /** Where it ends. */
  to: number;
  /** For each band its bytes when most was allocated; they add up to `allocated`. */
  groups: Bytes[][];
  /** Peak of allocated bytes. */
  allocated: Bytes[];
  /** The peak of active bytes; null for the CPU. */
  active: Bytes[] | null;
  /** The peak of reserved bytes, 0 until the trace has it; null if it never does. */
  reserved: Bytes[] | null;
  /** The least that was allocated. */
  lowest: Bytes[];
  /** How many allocations, frees and failed allocations there are. */
  events: number[];
};

/** The background of a picture over time. */
export type Bands = {
  /** What the program did. */
  stretches: Stretch[];
  /** Phases that the user named, marks and failed requests. */
  markers: Marker[];
  /** The steps. */
  steps: StepSpan[];
  /** How many of all these were left out: the shortest stretches and steps, and the last marks. */
  skipped: number;
};

/** A part of the recording with one phase. */
export type Stretch = {
  /** `forward`, `backward` or `optimizer`. */
  name: string;
  /** When it began, in seconds. */
  from: number;
  /** When the next thing began. */
  to: number;
};

/** A moment with a name. */
export type Marker = {
  /** When. */
  seconds: number;
  /** What it was. */
  kind: MarkerKind;
  /** Its name, to be shown. */
  name: string;
};

/** The kind of a marker: the end of a step, the beginning of a phase, a mark, a failed request. */
export type MarkerKind = "step" | "phase" | "mark" | "oom";

/** A step. */
export type StepSpan = {
  /** Its number. */
  number: number;
  /** When it began, in seconds: when the one before it ended. */
  from: number;
  /** When it ended, or the recording did. */
  to: number;
  /** Whether it ended. The last one does not where the program failed in it, or the recording stopped. */
  is_finished: boolean;
};

/** A part of the picture. */
export type AllocationTile = {
  /** Its level: there are 2^level tiles on it. */
  level: number;
  /** Which it is. */
  tile: number;
  /** When it begins, in seconds. */
  from: number;
  /** When it ends. */
  to: number;
  /** The largest allocations, in the order in which they were allocated: the first lies lowest. */
  shapes: Ribbon[];
  /** The names of the categories. */
  categories: string[];
  /** For each column the height of all others, below the ribbons. */
  rest: Bytes[];
};

/** One allocation. */
export type Ribbon = {
  /** Which. */
  id: number;
  /** Its category: a place in the tile's `categories`. */
  category: number;
  /** Its height. */
  bytes: Bytes;
  /** The times at which it moves to each of `ys`, in seconds; the last is its end. */
  xs: number[];
  /** Where its lower edge is: one fewer than `xs`. */
  ys: Bytes[];
};

/** The allocation at a point. */
export type Hit = {
  /** The allocation; null above the stack, and for bytes of no recorded allocation. */
  allocation: number | null;
  /** The band; null above the stack. */
  group: number | null;
};

/** The live memory of a device at a time. */
export type Report = {
  /** The version of floodmark that wrote the answer. */
  floodmark: string;
  /** The version of this JSON: it changes when a field changes its meaning. */
  format: number;
  /** The device. */
  device: Device;
  /** What the rows are. */
  by: By;
  /** The time. */
  at: Moment;
  /** torch's total of allocated bytes. */
  allocated: Bytes;
  /** torch's total of active bytes: allocated, or still used by a stream; null for the CPU. */
  active: Bytes | null;
  /** torch's total of reserved bytes; null for the CPU. */
  reserved: Bytes | null;
  /** What the program requested; null while that is unknown for some blocks. */
  requested: Bytes | null;
  /** What the recording misses. */
  losses: Losses;
  /** Wasted memory, in a report by segment. */
  fragmentation?: FragmentationReport;
  /** How many rows there are, those left out included. */
  total_rows: number;
  /** The rows. */
  rows: Row[];
};

/** What the rows of a report are. */
export type By = "line" | "stack" | "module" | "op" | "op-call" | "parameter" | "phase" | "category" | "tensor" | "step" | "segment";

/** Wasted memory at the time of a report, and over time. */
export type FragmentationReport = {
  /** The largest request of the recording, failed ones included. */
  largest_request: Bytes;
  /** At the time of the report. */
  at: Fragmentation;
  /** When each step ended. */
  over_time: FragmentationAt[];
};

/** Wasted memory at a time. */
export type Fragmentation = {
  /** Inside blocks, beyond the requested bytes. */
  rounding: Bytes;
  /** Free blocks of segments that are partly in use. */
  split: Bytes;
  /** Free blocks that are smaller than the largest request. */
  unusable: Bytes;
  /** All free bytes. */
  free: Bytes;
  /** How many free blocks there are. */
  free_blocks: number;
  /** The largest of them. */
  largest_free: Bytes;
  /** Reserved bytes. */
  reserved: Bytes;
  /** The part of reserved bytes that is not allocated. */
  ratio: number;
};

/** Wasted memory when a step ended; without steps, at some time. */
export type FragmentationAt = {
  /** The step that ended. */
  step: number | null;
  /** Seconds since the recording began. */
  seconds: number;
  /** Inside blocks, beyond the requested bytes. */
  rounding: Bytes;
  /** Free blocks of segments that are partly in use. */
  split: Bytes;
  /** Free blocks that are smaller than the largest request. */
  unusable: Bytes;
  /** All free bytes. */
  free: Bytes;
  /** How many free blocks there are. */
  free_blocks: number;
  /** The largest of them. */
  largest_free: Bytes;
  /** Reserved bytes. */
  reserved: Bytes;
  /** The part of reserved bytes that is not allocated. */
  ratio: number;
};

/** A row of a report: these fields, and those of its grouping. */
export type Row = {
  /** What is allocated. For a module, with the modules inside it. */
  bytes: Bytes;
  /** The bytes of this row and those above it, none counted twice. */
  cumulative: Bytes;
  /** How many allocations. */
  count: number;
  /** The middle one of their sizes; the larger of two. */
  median: Bytes;
  /** The row's line, module, operator, category or other name. */
  location: string;
} & (
  | {
      /** The file; null for blocks without a Python frame. */
      file: string | null;
      /** The line. */
      line: number | null;
      /** The function. */
      function: string | null;
      /** The module, where all allocations of the row have the same. */
      module: string | null;
      /** Whether the backward pass of this line allocated them. */
      backward: boolean;
    }
  | {
      /** Its frames, innermost first. */
      frames: Frame[];
      /** The innermost module on it. */
      module: string | null;
      /** Whether the backward pass of this stack allocated them. */
      backward: boolean;
    }
  | {
      /** What the module allocated itself, without the modules inside it. */
      own: Bytes;
      /** How many modules are around it. */
      depth: number;
      /** Its class; null for a container whose `forward` never ran. */
      class_name: string | null;
    }
  | {
      /** Its name; null where operators were not recorded. */
      op: string | null;
    }
  | {
      /** Its number, in the order of the calls that allocated; null for blocks from before the recording. */
      call: number | null;
      /** The operator; null where operators were not recorded. */
      op: string | null;
      /** The module that called it. */
      module: string | null;
      /** The step in which it ran. */
      step: number | null;
      /** The phase in which it ran. */
      phase: string | null;
      /** When its first block was allocated, in seconds since the recording began. */
      seconds: number | null;
      /** The peak of allocated bytes until the next call. */
      peak: Bytes | null;
      /** What was allocated when the next call began. */
      end: Bytes | null;
      /** `end` less what was allocated when the call began. */
      growth: number | null;
    }
  | {
      /** Its qualified name; null for the row of what belongs to no parameter. */
      parameter: string | null;
      /** Its shape, as Python prints it. */
      shape: string | null;
      /** Its dtype. */
      dtype: string | null;
      /** The parameter itself. */
      weight: Bytes;
      /** Its gradient. */
      gradient: Bytes;
      /** Its optimizer state. */
      optimizer_state: Bytes;
    }
  | {
      /** Its name; null for blocks from before the recording. */
      phase: string | null;
      /** The peak of allocated bytes while it ran, in the whole recording. */
      peak: Bytes | null;
      /** When that was, in seconds since the recording began. */
      peak_seconds: number | null;
    }
  | {
      /** Its name. */
      category: Category;
      /** Its own peak over the whole recording; null if not requested. */
      peak: Bytes | null;
      /** Its three largest allocations. */
      largest: Largest[];
    }
  | {
      /** Its qualified name. */
      name: string | null;
      /** Its shape, as Python prints it. */
      shape: string | null;
      /** Its dtype. */
      dtype: string | null;
      /** What it is to the program. */
      category: Category;
      /** The module that it belongs to. */
      module: string | null;
      /** The step in which it was allocated. */
      step: number | null;
      /** The phase in which it was allocated. */
      phase: string | null;
      /** When it was allocated, in seconds since the recording began; null for what was live before. */
      allocated_seconds: number | null;
      /** When autograd first saved it for the backward pass; null where it did not. */
      saved_seconds: number | null;
      /** When the backward pass last read what autograd had saved of it: its last use that is known. */
      last_use_seconds: number | null;
      /** When it was freed; null for what was live at the end. */
      freed_seconds: number | null;
    }
  | {
      /** Where it begins. */
      address: number;
      /** How long it is. */
      segment: Bytes;
      /** Freed, and still used by a stream. */
      pending_free: Bytes;
      /** Free. */
      free: Bytes;
      /** The largest free block. */
      largest_free: Bytes;
      /** A picture: `█` allocated, `▒` pending, `·` free. */
      picture: string;
    }
  | {
      /** Its number; null for blocks from before the recording. */
      step: number | null;
      /** Whether it is a prefill or a decode; null in a program that trains. */
      kind: StepKind | null;
      /** Whether it ended: the last one does not where the program failed in it, or the recording stopped. */
      is_finished: boolean | null;
      /** The peak of allocated bytes during it. */
      peak: Bytes | null;
      /** What was allocated when it ended. */
      end: Bytes | null;
      /** `end` less that of the step before. */
      growth: number | null;
      /** What was reserved when it ended; null on the CPU. */
      reserved: Bytes | null;
      /** The peak of allocated bytes in each phase of it. */
      phases: Record<string, Bytes>;
      /** What its peak was made of, by category. */
      categories: Record<string, Bytes>;
    }
);

/** One frame of a stack. */
export type Frame = {
  /** The file. */
  file: string;
  /** The line. */
  line: number;
  /** The function. */
  function: string;
};

/** The category of a tensor. */
export type Category = "parameter" | "buffer" | "gradient" | "optimizer state" | "activation" | "input" | "temporary" | "workspace" | "communication" | "KV cache" | "unknown";

/** One of the largest allocations of a category. */
export type Largest = {
  /** Its size. */
  bytes: Bytes;
  /** Its name where it has one, otherwise the line that allocated it. */
  location: string;
};

/** The kind of a step of a program that generates. */
export type StepKind = "prefill" | "decode";

/** The facts about one allocation. */
export type AllocationCard = {
  /** Its number in the trace. */
  id: number;
  /** Its device. */
  device: Device;
  /** The size of its block. */
  bytes: Bytes;
  /** The requested bytes. */
  requested: Bytes;
  /** Its address, as hexadecimal digits after `0x`: too large for a number of JavaScript. */
  address: string;
  /** The stream, where known. */
  stream: string | null;
  /** The pool, where known. */
  pool: string | null;
  /** Its category. */
  category: Category;
  /** The phase of the program. */
  phase: string | null;
  /** The step that allocated it, where there are steps. */
  step: number | null;
  /** The module that it belongs to. */
  module: string | null;
  /** The operator, where recorded. */
  op: string | null;
  /** The name of its tensor, where known. */
  name: string | null;
  /** The shape of its tensor, where known. */
  shape: string | null;
  /** The dtype of its tensor, where known. */
  dtype: string | null;
  /** The line that allocated it, in words. */
  location: string;
  /** The stack that allocated it, innermost frame first; for backward, that of the forward operator. */
  frames: CardFrame[];
  /** Whether the backward pass allocated it. */
  backward: boolean;
  /** When it was allocated, in seconds since the recording began; 0 for one from before the recording. */
  allocated_seconds: number;
  /** When autograd first saved it for the backward pass; null where it did not. */
  saved_seconds: number | null;
  /** When the backward pass last read what autograd had saved of it: its last use that is known. */
  last_use_seconds: number | null;
  /** When it was freed; null while it is live. */
  freed_seconds: number | null;
  /** Whether it was live when the recording began. */
  before_recording: boolean;
  /** Allocations of the same operator in the other direction. */
  partner: Partner | null;
};

/** One frame of the stack of an allocation. */
export type CardFrame = {
  /** The file. */
  file: string;
  /** The line. */
  line: number;
  /** The function. */
  function: string;
  /** Whether a stack without frames of frameworks leaves it out: torch, installed packages, Python's own library. */
  is_folded: boolean;
};

/** The allocations of an operator in the other direction. */
export type Partner = {
  /** The direction: `forward` or `backward`. */
  kind: PartnerKind;
  /** The allocations, nearest in time first. */
  ids: number[];
  /** The stack of the nearest one, innermost frame first. */
  frames: CardFrame[];
};

/** A direction of an operator. */
export type PartnerKind = "forward" | "backward";

/** The tree. */
export type Icicle = {
  /** The moment. */
  at: Moment;
  /** What is allocated. */
  total: Bytes;
  /** Everything. */
  root: IcicleNode;
};

/** A part of the tree. */
export type IcicleNode = {
  /** The function, or the last part of a module's name. */
  name: string;
  /** The file of a frame. */
  file: string | null;
  /** The line of a frame. */
  line: number | null;
  /** Whether the frame is of torch, of an installed package or of Python's own library. */
  framework: boolean;
  /** The category with most of its bytes. */
  category: Category;
  /** What is allocated, with all that is inside. */
  bytes: Bytes;
  /** What it made itself. */
  own: Bytes;
  /** How many allocations, with all that are inside. */
  count: number;
  /** The first of them: allocations are numbered in the order in which they were allocated. Null where none was recorded. */
  first_allocation: number | null;
  /** The largest first. */
  children: IcicleNode[];
};

/** One function with its callers and callees. */
export type Sandwich = {
  /** The moment. */
  at: Moment;
  /** What is allocated. */
  total: Bytes;
  /** The functions with most bytes of their own. */
  functions: FunctionBytes[];
  /** The function; null where the trace has none. */
  function: FunctionBytes | null;
  /** What called it: the function, then its callers, outwards. */
  callers: IcicleNode;
  /** What it called. */
  callees: IcicleNode;
};

/** A function, and what is allocated in it. */
export type FunctionBytes = {
  /** Its name. */
  name: string;
  /** Its file. */
  file: string;
  /** What is allocated, with all that it calls. */
  bytes: Bytes;
  /** What it allocated itself. */
  own: Bytes;
  /** How many allocations, with all that it calls. */
  count: number;
};

/** The address space. */
export type Segments = {
  /** The moment. */
  at: Moment;
  /** torch's totals. */
  totals: SegmentTotals;
  /** In the order of addresses. */
  segments: SegmentRow[];
  /** The names of the categories. */
  categories: string[];
  /** The lines and tensors that have the blocks. */
  owners: BlockOwner[];
  /** Wasted memory. */
  fragmentation: Fragmentation;
  /** How many blocks are left out: those of the smallest segments. */
  skipped: number;
};

/** torch's totals at the moment. */
export type SegmentTotals = {
  /** Allocated bytes. */
  allocated: Bytes;
  /** Active bytes. */
  active: Bytes | null;
  /** Reserved bytes. */
  reserved: Bytes | null;
  /** What the program requested; null while that is unknown for some blocks. */
  requested: Bytes | null;
};

/** A stretch of memory from the driver. */
export type SegmentRow = {
  /** Where it begins: a page's numbers are too short for an address. */
  address: string;
  /** How long it is. */
  bytes: Bytes;
  /** The pool; 0 is the default one. */
  pool: number;
  /** The stream that it serves. */
  stream: string;
  /** `small` or `large`, and whether it is `expandable`. */
  kind: string;
  /** Its blocks in the order of addresses, without gaps; null where there are too many in all. */
  blocks: SegmentBlock[];
};

/** A piece of a segment. */
export type SegmentBlock = {
  /** Where it begins in its segment. */
  offset: number;
  /** How long it is. */
  bytes: Bytes;
  /** Its state. */
  state: SegmentBlockState;
  /** Its category, as an index into `categories`; null for a free block. */
  category: number | null;
  /** The allocation in it. */
  allocation: number | null;
  /** The line and tensor that have it, as an index into `owners`; null for a free block. */
  owner: number | null;
};

/** The state of a block. */
export type SegmentBlockState = "live" | "pending_free" | "free" | "unmapped";

/** A line of the program, and a tensor where it has a name, with the blocks that it has. */
export type BlockOwner = {
  /** The line that allocated the blocks, in words. */
  location: string;
  /** The qualified name of the tensor, where known. */
  name: string | null;
  /** How many blocks it has. */
  blocks: number;
  /** How many bytes. */
  bytes: Bytes;
};

/** The address space under other settings. */
export type SimulatedSegments = {
  /** `PYTORCH_CUDA_ALLOC_CONF`. */
  alloc_conf: string;
  /** The first allocation that would have failed; the simulation ends there. */
  oom: FailedRequest | null;
  /** How the blocks would lie. */
  segments: Segments;
};

/** A failed allocation. */
export type FailedRequest = {
  /** The number of the event. */
  event: number;
  /** The time, in seconds since the recording began. */
  seconds: number;
  /** The step, where there are steps. */
  step: number | null;
  /** The requested bytes. */
  requested: Bytes;
};

/** The source files of a trace. */
export type SourceFiles = {
  /** The moment. */
  at: Moment;
  /** What is allocated. */
  allocated: Bytes;
  /** What has no line: without a Python frame, or from before the recording. */
  without_line: Bytes;
  /** The files with allocated bytes, the most first. */
  files: SourceFileBytes[];
};

/** A source file, and what its lines allocated. */
export type SourceFileBytes = {
  /** Its path, as the trace has it. */
  file: string;
  /** What is allocated. */
  bytes: Bytes;
  /** How many allocations. */
  count: number;
  /** How many of its lines have allocated bytes. */
  lines: number;
  /** Whether it is of an installed package or of Python's own library. */
  is_library: boolean;
  /** Whether the trace has a copy of it. */
  is_stored: boolean;
};

/** A source file with the bytes of each line, and its text. */
export type AnnotatedFile = {
  /** The bytes of the lines. */
  annotation: Annotation;
  /** The text of the file; null if there is none. */
  text: string | null;
  /** Whether the text is the copy in the trace. */
  is_stored: boolean;
  /** Why there is no text. */
  missing: string | null;
};

/** A source file with the bytes of each line. */
export type Annotation = {
  /** The version of floodmark that wrote the answer. */
  floodmark: string;
  /** The version of this JSON: it changes when a field changes its meaning. */
  format: number;
  /** The device. */
  device: Device;
  /** The time. */
  at: Moment;
  /** The file, as the trace has it. */
  file: string;
  /** torch's total of allocated bytes. */
  allocated: Bytes;
  /** What lines of this file allocated. */
  in_file: Bytes;
  /** What lines of other files allocated. */
  other_files: Bytes;
  /** What has no line: without a Python frame, or from before the recording. */
  without_line: Bytes;
  /** The lines with allocated bytes, in the order of the file. */
  lines: AnnotatedLine[];
  /** What may be wrong with the source. */
  notes: string[];
  /** What the recording misses. */
  losses: Losses;
};

/** The bytes of a line of source. */
export type AnnotatedLine = {
  /** The line, from 1. */
  line: number;
  /** The function. */
  function: string;
  /** The line on which the function begins; 0 where the trace does not have it. */
  function_line: number;
  /** What is allocated. */
  bytes: Bytes;
  /** The part of it that the backward pass allocated. */
  backward: Bytes;
  /** How many allocations. */
  count: number;
  /** The bytes of each category. */
  categories: Record<string, Bytes>;
};

/** Wasted memory over the whole recording. */
export type FragmentationCurve = {
  /** The largest request of the recording: free blocks that are smaller are unusable for it. */
  largest_request: Bytes;
  /** In the order of time. */
  points: FragmentationPoint[];
};

/** Wasted memory at a time. */
export type FragmentationPoint = {
  /** Seconds since the recording began. */
  seconds: number;
  /** Inside blocks, beyond the requested bytes. */
  rounding: Bytes;
  /** Free blocks of segments that are partly in use. */
  split: Bytes;
  /** Free blocks that are smaller than the largest request. */
  unusable: Bytes;
  /** All free bytes. */
  free: Bytes;
  /** How many free blocks there are. */
  free_blocks: number;
  /** The largest of them. */
  largest_free: Bytes;
  /** Reserved bytes. */
  reserved: Bytes;
  /** The part of reserved bytes that is not allocated. */
  ratio: number;
};

/** The largest tensors of a stretch of time. */
export type Lifetimes = {
  /** By module, in the order of their first tensors. */
  rows: LifetimeRow[];
  /** The smaller ones. */
  left_out: LeftOut;
};

/** The tensors of one module, in the order in which they were allocated. */
export type LifetimeRow = {
  /** Its qualified name. */
  module: string;
  /** Its tensors. */
  tensors: Lifetime[];
};

/** The life of one tensor. */
export type Lifetime = {
  /** Which allocation. */
  id: number;
  /** Its name where it has one, otherwise the line that allocated it. */
  name: string;
  /** Its size. */
  bytes: Bytes;
  /** What it is to the program. */
  category: Category;
  /** The phase in which it was allocated; null for what was live before the recording. */
  phase: string | null;
  /** When it was allocated, in seconds since the recording began; 0 for what was live before. */
  allocated_seconds: number;
  /** When autograd first saved it for the backward pass; null where it did not. */
  saved_seconds: number | null;
  /** When the backward pass began that an activation was retained for. */
  retained_until_seconds: number | null;
  /** When the backward pass last read what autograd had saved of it: its last use that is known. */
  last_use_seconds: number | null;
  /** When it was freed; null for what was live at the end. */
  freed_seconds: number | null;
};

/** What is not shown. */
export type LeftOut = {
  /** How many tensors. */
  count: number;
  /** Their sizes together, also where they were not live at the same time. */
  bytes: Bytes;
};

/** The changes between two times of one trace. */
export type RangeChanges = {
  /** The device. */
  device: Device;
  /** The earlier time. */
  from: Moment;
  /** The later time. */
  to: Moment;
  /** What was allocated at the earlier time. */
  allocated_from: Bytes;
  /** What was allocated at the later time. */
  allocated_to: Bytes;
  /** What happened in all. */
  change: Change;
  /** How many rows there are, those left out included. */
  total_rows: number;
  /** What differs most between the two times first. */
  rows: ChangeRow[];
};

/** The changes between two times. */
export type Change = {
  /** `allocated` minus `freed`: the change of torch's total. */
  net: number;
  /** What was allocated. */
  allocated: Amount;
  /** What was freed, whenever it was allocated. */
  freed: Amount;
  /** What was allocated and is live at the later time: live there and not at the earlier time. */
  survivors: Amount;
  /** What was live at the earlier time and is not at the later one. */
  gone: Amount;
};

/** Bytes, and how many allocations they are. */
export type Amount = {
  /** The bytes. */
  bytes: Bytes;
  /** The number of allocations. */
  count: number;
};

/** The changes of one line, module or category between two times. */
export type ChangeRow = {
  /** The line, module or category. */
  location: string;
  /** The file of a line; null where there is no Python frame. */
  file: string | null;
  /** The number of the line. */
  line: number | null;
  /** `allocated` minus `freed`: the change of torch's total. */
  net: number;
  /** What was allocated. */
  allocated: Amount;
  /** What was freed, whenever it was allocated. */
  freed: Amount;
  /** What was allocated and is live at the later time: live there and not at the earlier time. */
  survivors: Amount;
  /** What was live at the earlier time and is not at the later one. */
  gone: Amount;
  /** The largest of what differs: of the survivors, or else of what is gone. */
  largest: number | null;
};

/** The steps of a device. */
export type Steps = {
  /** The device. */
  device: Device;
  /** The steps, in order; null where the program had none. */
  steps: Step[];
  /** The lines that grow from step to step; null where there are too few steps to tell. */
  leaks: Leaks | null;
  /** Why leaks cannot be found. */
  leaks_missing: string | null;
};

/** One step. */
export type Step = {
  /** Its number, from 0. */
  number: number;
  /** When the step before it ended, in seconds; 0 for the first. */
  from: number;
  /** When it ended, or the recording did. */
  to: number;
  /** Whether it ended. */
  is_finished: boolean;
  /** The peak of allocated bytes in it. */
  peak: Bytes;
  /** When that was first reached. */
  peak_seconds: number;
  /** What was allocated when it ended. */
  end: Bytes;
  /** How much more that is than at the end of the step before; null for the first. */
  growth: number | null;
  /** What was reserved when it ended; null for the CPU. */
  reserved: Bytes | null;
  /** The peak of each phase. */
  phases: PhasePeak[];
};

/** A phase of a step. */
export type PhasePeak = {
  /** Its name. */
  name: string;
  /** The peak of allocated bytes in it. */
  peak: Bytes;
};

/** Which lines grow from step to step. */
export type Leaks = {
  /** The version of floodmark that wrote the answer. */
  floodmark: string;
  /** The version of this JSON: it changes when a field changes its meaning. */
  format: number;
  /** The device. */
  device: Device;
  /** How many finished steps were looked at: all but the first. */
  steps: number;
  /** How many more bytes are live when the last of them ends than when the first step ended, of all lines. */
  growth: number;
  /** What the KV cache gains from one decode step to the next, on average; null in a program that does not generate. */
  kv_cache_per_step: Bytes | null;
  /** What the recording misses. */
  losses: Losses;
  /** How many suspects there are, those left out included. */
  total_rows: number;
  /** The suspects, the one that gains most in a step first. */
  rows: Leak[];
};

/** A line that grows from step to step. */
export type Leak = {
  /** What it gains in a step, on average. */
  bytes_per_step: Bytes;
  /** What it gained since it began to grow. */
  growth: Bytes;
  /** Its live bytes when the last finished step ends. */
  bytes: Bytes;
  /** How many more blocks are live since it began to grow. */
  count: number;
  /** The first step of the growth. */
  since: number;
  /** How many steps there are from that one on. */
  steps: number;
  /** In how many of them it grew. */
  grew: number;
  /** The category of most of the bytes. */
  category: Category;
  /** The line, in words. */
  location: string;
  /** The file; null for blocks without a Python frame. */
  file: string | null;
  /** The line. */
  line: number | null;
  /** The function. */
  function: string | null;
  /** The module, where all that it gained has the same. */
  module: string | null;
  /** Whether the backward pass of this line allocated them. */
  backward: boolean;
  /** The stack of the newest block, innermost frame first. */
  frames: Frame[];
};

/** The changes between two traces. */
export type Diff = {
  /** The version of floodmark that wrote the answer. */
  floodmark: string;
  /** The version of this JSON: it changes when a field changes its meaning. */
  format: number;
  /** The device of the first trace. */
  device: Device;
  /** The device of the second trace. */
  device_b: Device;
  /** What the rows are. */
  by: By;
  /** The times. */
  at: MomentOfBoth;
  /** torch's totals of allocated bytes at these times. */
  allocated: Total;
  /** torch's totals of active bytes; null for the CPU. */
  active: Total | null;
  /** torch's totals of reserved bytes; null for the CPU. */
  reserved: Total | null;
  /** The peaks, independent of the times. */
  peaks: Peaks;
  /** What the recording misses. */
  losses: LossesOfBoth;
  /** How many rows are the same in both, in bytes and in count. They are not among the rows. */
  unchanged_rows: number;
  /** How many rows changed, those left out included. */
  total_rows: number;
  /** The rows that changed, the largest change first. */
  rows: DiffRow[];
};

/** The same of both traces. */
export type MomentOfBoth = {
  /** In the first trace. */
  a: Moment;
  /** In the second one. */
  b: Moment;
};

/** A number of bytes in both traces. */
export type Total = {
  /** In the first trace. */
  a: Bytes;
  /** In the second one. */
  b: Bytes;
  /** `b` minus `a`. */
  change: number;
  /** The same in percent of `a`; null where `a` is 0. */
  percent: number | null;
};

/** The highest totals of both recordings, each at its own time. */
export type Peaks = {
  /** Peak of allocated bytes. */
  allocated: Total;
  /** The peak of reserved bytes; null for the CPU. */
  reserved: Total | null;
};

/** The same of both traces. */
export type LossesOfBoth = {
  /** In the first trace. */
  a: Losses;
  /** In the second one. */
  b: Losses;
};

/** A row of a diff: these fields, and those of its grouping. */
export type DiffRow = {
  /** `b` minus `a`. */
  change: number;
  /** What is allocated in the first trace. */
  a: Bytes;
  /** What is allocated in the second one. */
  b: Bytes;
  /** How many allocations in the first trace. */
  count_a: number;
  /** How many in the second one. */
  count_b: number;
  /** The row's line, module, operator, category or other name. */
  location: string;
} & (
  | {
      /** The file; null for blocks without a Python frame. */
      file: string | null;
      /** The line. */
      line: number | null;
      /** The function. */
      function: string | null;
      /** Whether the backward pass of this line allocated them. */
      backward: boolean;
    }
  | {
      /** Its frames, innermost first. */
      frames: Frame[];
      /** Whether the backward pass of this stack allocated them. */
      backward: boolean;
    }
  | {
      /** The qualified name. */
      name: string | null;
      /** The shape, as Python prints it. */
      shape: string | null;
      /** The dtype. */
      dtype: string | null;
      /** Their category. */
      category: Category;
    }
  | Record<never, never>
);

/** Both recordings over time, on one axis. */
export type DiffCurves = {
  /** What the axis is: `steps`, and in a step events, or `time`. */
  axis: AxisBy;
  /** Where the longer one of them ends. */
  length: number;
  /** The highest bytes of both. */
  highest: Bytes;
  /** The two. */
  curves: DiffCurveOfBoth;
};

/** The same of both traces. */
export type DiffCurveOfBoth = {
  /** In the first trace. */
  a: DiffCurve;
  /** In the second one. */
  b: DiffCurve;
};

/** One of the two recordings. */
export type DiffCurve = {
  /** The device. */
  device: Device;
  /** How long the recording is. */
  seconds: number;
  /** The highest point. */
  peak: DiffPoint;
  /** The time that is compared. */
  at: DiffPoint;
  /** The points of the curve, in order. */
  points: DiffPoint[];
};

/** A point of a curve. */
export type DiffPoint = {
  /** Where it lies on the axis that both recordings share. */
  position: number;
  /** Seconds since its recording began. */
  seconds: number;
  /** torch's total of allocated bytes. */
  allocated: Bytes;
};

/** What two traces have at a time, as one tree. */
export type DiffTree = {
  /** The times. */
  at: MomentOfBoth;
  /** torch's totals of allocated bytes. */
  allocated: Total;
  /** Everything. */
  root: DiffNode;
};

/** A part of the tree. */
export type DiffNode = {
  /** The function, or the last part of a module's name. */
  name: string;
  /** The file of a frame: in the second trace, or in the first where the second lacks it. */
  file: string | null;
  /** The line of a frame. */
  line: number | null;
  /** What happened to it. */
  kind: DiffKind;
  /** What the first trace has, with all that is inside. */
  a: Bytes;
  /** What the second trace has. */
  b: Bytes;
  /** `b` minus `a`. */
  change: number;
  /** What it allocated itself: the change. */
  own_change: number;
  /** How wide it is: what it allocated itself, the larger of the two, and all that is inside. */
  bytes: Bytes;
  /** The widest first. */
  children: DiffNode[];
};

/** The change of a node from the first trace to the second. */
export type DiffKind = "same" | "grown" | "shrunk" | "new" | "gone";

/** The peaks of all ranks. */
export type Ranks = {
  /** Every device of every recording; the CPU only where nothing else was used. */
  ranks: Rank[];
  /** The median of the peaks; null where there is nothing. */
  median: Bytes | null;
  /** The rank whose peak is nearest to the median, by its index in `ranks`: the one to compare others with. */
  nearest: number | null;
  /** The ranks that stand out, by their index in `ranks`, the furthest from the median first. */
  outliers: number[];
  /** The names of the nodes, in the order of their ranks; empty where a rank's node is unknown. */
  nodes: string[];
};

/** One device of one recording. */
export type Rank = {
  /** Which recording, counted from 0. */
  trace: number;
  /** Its rank, where known. */
  rank: number | null;
  /** Its name. */
  name: string;
  /** Its node, by its index in `nodes`; null where the launcher did not say which rank of its node it is. */
  node: number | null;
  /** Its rank on its node, where known. */
  local_rank: number | null;
  /** The device. */
  device: Device;
  /** Peak of allocated bytes. */
  peak: Bytes;
  /** The peak of reserved bytes; null for the CPU. */
  reserved_peak: Bytes | null;
  /** What was allocated at the end. */
  end: Bytes;
  /** Whether its peak stands out among the others. */
  is_outlier: boolean;
};

/** The lines that differ from rank to rank. */
export type RankLines = {
  /** How many lines have the same bytes on every rank. They are not among the lines. */
  same: number;
  /** How many lines differ, those left out included. */
  total: number;
  /** The lines that differ, the largest distance between two ranks first. */
  lines: RankLine[];
};

/** What one line of the program has allocated on each rank at its peak. */
export type RankLine = {
  /** The line, or a description if there is none. */
  location: string;
  /** The file; null for blocks without a Python frame. */
  file: string | null;
  /** The line. */
  line: number | null;
  /** The fewest bytes on a rank. */
  lowest: Bytes;
  /** The median of all ranks. */
  median: Bytes;
  /** The most bytes on a rank. */
  highest: Bytes;
  /** The rank that is furthest from the median, by its index in the ranks. */
  furthest: number;
  /** The bytes of each rank, in the order of the ranks. */
  bytes: Bytes[];
};

/** Why an allocation failed. */
export type OomReport = {
  /** The version of floodmark that wrote the answer. */
  floodmark: string;
  /** The version of this JSON: it changes when a field changes its meaning. */
  format: number;
  /** The device. */
  device: Device;
  /** The time, with the failed allocation. */
  at: Moment;
  /** Why it failed. */
  reason: OomReason;
  /** The same as a sentence, with its figures. */
  why: string;
  /** The segment that torch requested from the driver; null for the CPU. */
  segment: Bytes | null;
  /** The most that torch could reserve, where the recording shows it. */
  limit: Bytes | null;
  /** Whether `set_per_process_memory_fraction` set this limit. */
  is_own_limit: boolean;
  /** The memory of the device, where known. */
  total: Bytes | null;
  /** The free memory of the device, if known. */
  device_free: Bytes | null;
  /** Memory in use outside torch, including the CUDA context, if known. */
  outside_torch: Bytes | null;
  /** How it grew since the first step, if it did and the recording has samples of NVML. */
  outside_growth?: OutsideGrowth;
  /** torch's reserved bytes; null for the CPU. */
  reserved: Bytes | null;
  /** What torch could still reserve: up to the limit, or all that was free on the device. Null where the recording shows neither. */
  unreserved: Bytes | null;
  /** torch's allocated bytes. */
  allocated: Bytes;
  /** Whether the trace has the addresses of blocks. Without them, free blocks are unknown. */
  is_replayed: boolean;
  /** Freed, and still used by a stream. */
  pending_free: Bytes;
  /** Reserved and free, all together. */
  free: Bytes;
  /** How many free blocks there are. */
  free_blocks: number;
  /** The largest of them. */
  largest_free: Bytes;
  /** Free in the pool and on the stream of the request. */
  usable_free: Bytes;
  /** How many blocks these are. */
  usable_blocks: number;
  /** The largest of them. */
  largest_usable: Bytes;
  /** The least memory beyond the limit with which the allocation succeeds; null when that is not known. */
  needed: Bytes | null;
  /** Changes that were simulated. */
  proofs: Proof[];
  /** Whether nothing was allocated on the device after it: the recording ends there. */
  is_last: boolean;
  /** A sentence about what the proofs do not cover: later requests of the program. */
  scope: string;
  /** Live memory, by line. */
  lines: Row[];
  /** Live memory, by module. */
  modules: Row[];
  /** What the recording misses. */
  losses: Losses;
};

/** Why an allocation failed. */
export type OomReason = "capacity" | "fragmentation" | "other_pool" | "pending_frees" | "outside_torch";

/** The growth of the memory outside torch, after the first step. */
export type OutsideGrowth = {
  /** How much more was in use outside torch than after the first step. */
  bytes: Bytes;
  /** The part of it in the recorded process; null where NVML does not say it. */
  own_bytes: number | null;
  /** The step in which it began. */
  step: number;
  /** When it began, in seconds since the recording began. */
  seconds: number;
};

/** Whether the failed allocation would have succeeded with a change. What the program requests after it is not known. */
export type Proof = {
  /** With these settings; those of the recording when there are none. */
  alloc_conf: string;
  /** With this much more memory. */
  extra_memory: Bytes;
  /** Whether the allocation would have succeeded. */
  fits: boolean;
};

/** Advice for a program, with the bytes that each change saves. */
export type AdviceReport = {
  /** The version of floodmark that wrote the answer. */
  floodmark: string;
  /** The version of this JSON: it changes when a field changes its meaning. */
  format: number;
  /** The device. */
  device: Device;
  /** The peak of allocated bytes; after a failed allocation, the peak that its success would give. */
  peak_allocated: Bytes;
  /** The peak of reserved bytes, in the same way; null without a caching allocator. */
  peak_reserved: Bytes | null;
  /** How many allocations failed in the recording. */
  failed_requests: number;
  /** Whether the simulation agrees with the recording; null when nothing could be simulated. */
  is_reproduced: boolean | null;
  /** The causes of live memory at the failed allocation, or else at the peak: the largest first. */
  causes: Cause[];
  /** Checks without a finding, and checks that were not possible. */
  notes: string[];
  /** What to change, the largest saving first. */
  advice: Advice[];
  /** What the recording misses. */
  losses: Losses;
};

/** A part of what is live at the peak. */
export type Cause = {
  /** What it is. */
  kind: CauseKind;
  /** How much. */
  bytes: Bytes;
  /** How many allocations. */
  count: number;
  /** Its description. */
  name: string;
  /** The location with most of its bytes. */
  location: string | null;
};

/** The cause of a part of the peak. */
export type CauseKind = "logits" | "block_activations" | "activations" | "parameters" | "gradients" | "optimizer_state" | "optimizer_temporaries" | "temporaries" | "inputs" | "buffers" | "workspaces" | "communication" | "kv_cache" | "failed_allocation" | "unknown";

/** One change. */
export type Advice = {
  /** Its subject. */
  kind: AdviceKind;
  /** The finding. */
  finding: string;
  /** What to do. */
  change: string;
  /** The assumptions about the changed program; empty if there are none. */
  assumes: string;
  /** By how much the peak of allocated bytes falls. */
  saves_allocated: Bytes;
  /** By how much the peak of reserved bytes falls; null without a caching allocator. */
  saves_reserved: Bytes | null;
  /** The peak of allocated bytes with the change. */
  peak_allocated: Bytes;
  /** The peak of reserved bytes with the change. */
  peak_reserved: Bytes | null;
};

/** The subject of a change. */
export type AdviceKind = "allocator_settings" | "leak" | "idle" | "stale_gradients" | "optimizer_temporaries" | "checkpointing" | "logits";

/** The results of other allocator settings, or of another amount of memory. */
export type Simulation = {
  /** The version of floodmark that wrote the answer. */
  floodmark: string;
  /** The version of this JSON: it changes when a field changes its meaning. */
  format: number;
  /** The device. */
  device: Device;
  /** The version whose rules were simulated. */
  torch: TorchVersion;
  /** What was recorded. */
  recorded: RecordedRun;
  /** Whether the rules reproduce the recording under its own settings. */
  is_reproduced: boolean;
  /** The simulated runs. */
  runs: SimulatedRun[];
  /** The number of the best run: none fails, and it reserves least; null when there is one only, or all fail. */
  best: number | null;
  /** A sentence about what the runs do not show, if the recording has a failed allocation: the requests after it. */
  scope: string | null;
  /** What the recording misses. */
  losses: Losses;
};

/** A version of torch: `2.11`. */
export type TorchVersion = string;

/** What was recorded. */
export type RecordedRun = {
  /** `PYTORCH_CUDA_ALLOC_CONF`. */
  alloc_conf: string;
  /** The most that torch could reserve, where the recording shows it. */
  memory: Bytes | null;
  /** Peak of allocated bytes. */
  peak_allocated: Bytes;
  /** Peak of reserved bytes. */
  peak_reserved: Bytes;
  /** How often cached memory was returned to the driver to make room. */
  retries: number;
  /** The first allocation that failed. */
  oom: FailedRequest | null;
};

/** One simulated run. */
export type SimulatedRun = {
  /** `PYTORCH_CUDA_ALLOC_CONF`. */
  alloc_conf: string;
  /** The most that torch could reserve; null for no limit. */
  memory: Bytes | null;
  /** The simulated peak of allocated bytes. */
  peak_allocated: Bytes;
  /** The simulated peak of reserved bytes. */
  peak_reserved: Bytes;
  /** `peak_reserved` minus `peak_allocated`. */
  waste: Bytes;
  /** How often cached memory would have been returned to the driver to make room. */
  retries: number;
  /** The first allocation that would have failed; the figures end there. */
  oom: FailedRequest | null;
};

/** What to change so that a program fits on a simulated GPU. A trace may have one that an older floodmark wrote, so every field may be missing. */
export type Plan = {
  /** The version of floodmark that wrote the answer. */
  floodmark: string;
  /** The version of this JSON: it changes when a field changes its meaning. */
  format: number;
  /** The name of the GPU. */
  gpu: string;
  /** Its memory. */
  capacity: Bytes;
  /** The program as it is. */
  unchanged: PlanTry | null;
  /** What fills its peak, by what could be changed: the largest cause first. */
  causes: Cause[];
  /** The cheapest changes with which it fits, none for a program that fits as it is; null where nothing fits. */
  plan: PlanTry | null;
  /** Whether the program was run with the plan on the GPU itself, and every allocation succeeded. */
  is_proven: boolean;
  /** The changes of the plan, with what each of them costs. */
  changes: PlanChange[];
  /** Plain torch code that does what the plan does; empty without a plan. */
  patch: string;
  /** A command that runs the program with the plan, without editing it; empty without a plan. */
  command: string;
  /** The least memory of all tries. */
  floor: Bytes;
  /** The try that needs the least. */
  floor_try: PlanTry | null;
  /** What remains at its peak: the largest cause first. */
  floor_causes: Cause[];
  /** Where nothing fits: what does, as tried. A larger GPU, or more of them. */
  next_steps: NextStep[];
  /** Every try, the largest need first. */
  tries: PlanTry[];
  /** Changes that are no candidates. */
  left_out: LeftOut2[];
  /** Combinations for which there was no time. */
  not_tried: string[];
  /** Every run of the program that this command made, with its time; the proof of the plan is one of them. */
  runs: PlanRun[];
  /** Why every try is a new process, which takes longer, or why figures of tries may differ by chance; null where neither is so. */
  tries_note: string | null;
};

/** One combination of changes. */
export type PlanTry = {
  /** The changes, as behind `--with`. */
  changes: string[];
  /** What each was applied to. */
  targets: string[];
  /** The most that torch had allocated. */
  peak_allocated: Bytes;
  /** The most that torch had reserved: where memory is plenty, or on the GPU itself where it fits there alone. */
  peak_reserved: Bytes;
  /** What it needs with the CUDA context, likewise. */
  needed: Bytes;
  /** Whether it fits. */
  fits: boolean;
  /** Whether it fits because torch frees cached blocks, which it would keep where memory is plenty. */
  frees_cached_blocks: boolean;
  /** How many steps ended. */
  steps: number;
  /** How the program ended. */
  ended: PhantomEnd;
  /** Whether its last steps had the same peak; null where it ended by itself, or made too few steps. */
  step_peaks: StepPeaks | null;
  /** When it ran, where the answer is from an earlier run: seconds since 1970; null where it ran now. */
  from_earlier_run: number | null;
  /** Whether a change may slow it down. */
  slows: boolean;
  /** What the changes do to the results. */
  numerics: Numerics;
  /** The floating-point operations of a step, as a multiple of those without changes; null where unknown. */
  compute: number | null;
  /** The estimated time of a step, as a multiple of that without changes; null where unknown. */
  slow_down: number | null;
  /** The estimated time of a step on the GPU and on its host; null where it was not measured. */
  step_time: StepTime | null;
  /** Which of them a step waits for, as estimated; null where unknown. */
  limited_by: StepLimit | null;
  /** The bytes of a step that pass between host and device; null where they were not counted. */
  host_bytes: number | null;
  /** How many GPUs it takes: each needs this memory. */
  gpus: number;
  /** Whether no other try needs less memory without more time, more GPUs or a larger change of the results. */
  is_best: boolean;
  /** Whether no other try needs less memory without more time, whatever becomes of the results: the points of the curve of memory against time. False where the time is unknown. */
  is_on_curve: boolean;
};

/** How the peaks of the last two steps of a program that was stopped compare. */
export type StepPeaks = "equal" | "differ" | "grow";

/** How long a step takes, estimated. */
export type StepTime = {
  /** The seconds in which the GPU computes. */
  gpu_seconds: number;
  /** The seconds in which the host starts operators. */
  host_seconds: number;
};

/** What a step waits for. */
export type StepLimit = "gpu" | "host";

/** One change of the plan. */
export type PlanChange = {
  /** As behind `--with`. */
  change: string;
  /** What it was applied to. */
  target: string;
  /** The bytes that it saves alone; null where it was not tried alone. */
  saves: Bytes | null;
  /** Whether it may slow the program down. */
  slows: boolean;
  /** What it does to the results. */
  numerics: Numerics;
  /** The floating-point operations of a step with it alone, as a multiple of those without; null where unknown. */
  compute: number | null;
  /** The estimated time of a step with it alone, as a multiple of that without; null where unknown. */
  slow_down: number | null;
};

/** A way to run the program where no change of it is enough. */
export type NextStep = {
  /** The name of the GPU. */
  gpu: string;
  /** Its memory. */
  capacity: Bytes;
  /** As behind `--gpu`; empty for the GPU that the plan is for. */
  profile: string;
  /** How many of them. */
  gpus: number;
  /** The changes with which the program was run on it, and fits. */
  changes: string[];
  /** What each GPU needs. */
  needed: Bytes;
};

/** A change that is no candidate. */
export type LeftOut2 = {
  /** The changes, as behind `--with`. */
  changes: string;
  /** Why. */
  reason: string;
};

/** A run of the program that this command made. */
export type PlanRun = {
  /** The changes, as behind `--with`. */
  changes: string[];
  /** What it was for. */
  asked: Asked;
  /** How long it took, beside those that ran at the same time. */
  seconds: number;
};

/** How an estimate is asked for. */
export type Asked = "need" | "verdict" | "cost";

/** The error as JSON. */
export type Problem = {
  /** The message. */
  error: string;
  /** What to do. */
  hint: string | null;
};

/** A trace has grown. */
export type Grown = {
  /** Its number, from 0. */
  trace: number;
  /** Its revision, as in `traces`. */
  revision: number;
  /** The number of its events. */
  events: number;
  /** Its length. */
  seconds: number;
  /** Whether its end was written. */
  is_finished: boolean;
};

/** All traces have ended. */
export type Ended = {
  /** The number of traces. */
  traces: number;
};
