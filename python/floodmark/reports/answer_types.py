"""What `.to_dict()` of an answer, its rows and other dictionaries hold.

Made from the Rust types by `make types`: not to be edited.
"""

from __future__ import annotations

from typing import Literal, TypedDict, Union, final

# A device, as torch writes it: `cpu`, `cuda:0`.
Device = str

# What the rows of a report are.
By = Literal["line", "stack", "module", "op", "op-call", "parameter", "phase", "category", "tensor", "step", "segment"]

# Which time an answer is about: `time` is one that the question chose, `step` the peak of a step or
# of one phase of it.
At = Literal["peak", "oom", "end", "time", "step"]

# A number of bytes.
Bytes = int

# What the recording misses, a sentence each; empty for a complete one.
Losses = list[str]

# The category of a tensor.
Category = Literal["parameter", "buffer", "gradient", "optimizer state", "activation", "input", "temporary", "workspace", "communication", "KV cache", "unknown"]

# The kind of a step of a program that generates.
StepKind = Literal["prefill", "decode"]

# Whose memory a row of a ledger is.
LedgerOwner = Literal["torch_allocated", "torch_cached", "outside_torch", "other_process", "unexplained"]

# The engine that simulates a GPU.
Engine = Literal["phantom", "fake"]

# How a program on a simulated GPU ended.
PhantomEnd = Literal["unknown", "done", "steps", "out_of_memory", "failed"]

# The effect of a change on the results of a program.
Numerics = Literal["same", "rounding", "changed", "training"]

# The kind of an operator.
OperatorKind = Literal["matmul", "uneven_matmul", "attention", "convolution", "grouped_convolution", "host_copy", "async_host_copy", "elementwise", "normalization", "memory"]

# How a recording ended.
Outcome = Literal["finished", "running", "stopped_early", "unfinished"]

# Why an allocation failed.
OomReason = Literal["capacity", "fragmentation", "other_pool", "pending_frees", "outside_torch"]

# Which allocator wrote a message.
OomSource = Literal["caching_allocator", "async_allocator", "mps", "cpu_allocator", "numpy", "shared_memory", "kernel", "driver", "cublas", "cudnn", "other_library", "nccl", "triton"]

# Why an allocation failed, as far as a message shows it. The names are those of `oom` for a trace.
OomMessageReason = Literal["capacity", "fragmentation", "other_pool", "outside_torch", "limit", "refused", "huge_request", "library", "host_memory", "unknown"]

# A version of torch: `2.11`.
TorchVersion = str

# The cause of a part of the peak.
CauseKind = Literal["logits", "block_activations", "activations", "parameters", "gradients", "optimizer_state", "optimizer_temporaries", "temporaries", "inputs", "buffers", "workspaces", "communication", "kv_cache", "failed_allocation", "unknown"]

# The subject of a change.
AdviceKind = Literal["allocator_settings", "leak", "idle", "stale_gradients", "optimizer_temporaries", "checkpointing", "logits"]

# Why the answer is unknown.
Unknown = Literal["failed", "no_end", "incomplete", "nothing_allocated", "shared_gpu", "fake_tensors"]

# How the peaks of the last two steps of a program that was stopped compare.
StepPeaks = Literal["equal", "differ", "grow"]

# What a step waits for.
StepLimit = Literal["gpu", "host"]

# How an estimate is asked for.
Asked = Literal["need", "verdict", "cost"]

# The result of a check.
CheckStatus = Literal["ok", "note", "failed"]


class _ReportOptional(TypedDict, total=False):
    fragmentation: FragmentationReport
    """Wasted memory, in a report by segment."""


class Report(_ReportOptional):
    """The live memory of a device at a time."""

    floodmark: str
    """The version of floodmark that wrote the answer."""
    format: int
    """The version of this JSON: it changes when a field changes its meaning."""
    device: Device
    """The device."""
    by: By
    """What the rows are."""
    at: Moment
    """The time."""
    allocated: Bytes
    """torch's total of allocated bytes."""
    active: Bytes | None
    """torch's total of active bytes: allocated, or still used by a stream; null for the CPU."""
    reserved: Bytes | None
    """torch's total of reserved bytes; null for the CPU."""
    requested: Bytes | None
    """What the program requested; null while that is unknown for some blocks."""
    losses: Losses
    """What the recording misses."""
    total_rows: int
    """How many rows there are, those left out included."""
    rows: list[Row]
    """The rows."""


class _MomentOptional(TypedDict, total=False):
    request: Request
    """The failed allocation; for `oom` alone."""


class Moment(_MomentOptional):
    """A time on a device."""

    what: At
    """Which time it is."""
    seconds: float
    """Seconds since the recording began."""
    step: int | None
    """The step, where there are steps."""
    phase: str | None
    """The phase of the program, if known."""
    module: str | None
    """The innermost module that was running, where that is known."""


class Request(TypedDict):
    """A failed allocation."""

    bytes: Bytes
    """The requested bytes."""
    location: str | None
    """The line that requested it."""


class FragmentationReport(TypedDict):
    """Wasted memory at the time of a report, and over time."""

    largest_request: Bytes
    """The largest request of the recording, failed ones included."""
    at: Fragmentation
    """At the time of the report."""
    over_time: list[FragmentationAt]
    """When each step ended."""


class Fragmentation(TypedDict):
    """Wasted memory at a time."""

    rounding: Bytes
    """Inside blocks, beyond the requested bytes."""
    split: Bytes
    """Free blocks of segments that are partly in use."""
    unusable: Bytes
    """Free blocks that are smaller than the largest request."""
    free: Bytes
    """All free bytes."""
    free_blocks: int
    """How many free blocks there are."""
    largest_free: Bytes
    """The largest of them."""
    reserved: Bytes
    """Reserved bytes."""
    ratio: float
    """The part of reserved bytes that is not allocated."""


class FragmentationAt(TypedDict):
    """Wasted memory when a step ended; without steps, at some time."""

    step: int | None
    """The step that ended."""
    seconds: float
    """Seconds since the recording began."""
    rounding: Bytes
    """Inside blocks, beyond the requested bytes."""
    split: Bytes
    """Free blocks of segments that are partly in use."""
    unusable: Bytes
    """Free blocks that are smaller than the largest request."""
    free: Bytes
    """All free bytes."""
    free_blocks: int
    """How many free blocks there are."""
    largest_free: Bytes
    """The largest of them."""
    reserved: Bytes
    """Reserved bytes."""
    ratio: float
    """The part of reserved bytes that is not allocated."""


@final
class LineRow(TypedDict):
    """A line of the program."""

    bytes: Bytes
    """What is allocated. For a module, with the modules inside it."""
    cumulative: Bytes
    """The bytes of this row and those above it, none counted twice."""
    count: int
    """How many allocations."""
    median: Bytes
    """The middle one of their sizes; the larger of two."""
    location: str
    """The row's line, module, operator, category or other name."""
    file: str | None
    """The file; null for blocks without a Python frame."""
    line: int | None
    """The line."""
    function: str | None
    """The function."""
    module: str | None
    """The module, where all allocations of the row have the same."""
    backward: bool
    """Whether the backward pass of this line allocated them."""


@final
class StackRow(TypedDict):
    """A call stack."""

    bytes: Bytes
    """What is allocated. For a module, with the modules inside it."""
    cumulative: Bytes
    """The bytes of this row and those above it, none counted twice."""
    count: int
    """How many allocations."""
    median: Bytes
    """The middle one of their sizes; the larger of two."""
    location: str
    """The row's line, module, operator, category or other name."""
    frames: list[Frame]
    """Its frames, innermost first."""
    module: str | None
    """The innermost module on it."""
    backward: bool
    """Whether the backward pass of this stack allocated them."""


@final
class ModuleRow(TypedDict):
    """A module."""

    bytes: Bytes
    """What is allocated. For a module, with the modules inside it."""
    cumulative: Bytes
    """The bytes of this row and those above it, none counted twice."""
    count: int
    """How many allocations."""
    median: Bytes
    """The middle one of their sizes; the larger of two."""
    location: str
    """The row's line, module, operator, category or other name."""
    own: Bytes
    """What the module allocated itself, without the modules inside it."""
    depth: int
    """How many modules are around it."""
    class_name: str | None
    """Its class; null for a container whose `forward` never ran."""


@final
class OpRow(TypedDict):
    """An operator."""

    bytes: Bytes
    """What is allocated. For a module, with the modules inside it."""
    cumulative: Bytes
    """The bytes of this row and those above it, none counted twice."""
    count: int
    """How many allocations."""
    median: Bytes
    """The middle one of their sizes; the larger of two."""
    location: str
    """The row's line, module, operator, category or other name."""
    op: str | None
    """Its name; null where operators were not recorded."""


@final
class OpCallRow(TypedDict):
    """A call of an operator. The row's `bytes` were allocated in it and are live at the time of
    the report."""

    bytes: Bytes
    """What is allocated. For a module, with the modules inside it."""
    cumulative: Bytes
    """The bytes of this row and those above it, none counted twice."""
    count: int
    """How many allocations."""
    median: Bytes
    """The middle one of their sizes; the larger of two."""
    location: str
    """The row's line, module, operator, category or other name."""
    call: int | None
    """Its number, in the order of the calls that allocated; null for blocks from before the
    recording."""
    op: str | None
    """The operator; null where operators were not recorded."""
    module: str | None
    """The module that called it."""
    step: int | None
    """The step in which it ran."""
    phase: str | None
    """The phase in which it ran."""
    seconds: float | None
    """When its first block was allocated, in seconds since the recording began."""
    peak: Bytes | None
    """The peak of allocated bytes until the next call."""
    end: Bytes | None
    """What was allocated when the next call began."""
    growth: int | None
    """`end` less what was allocated when the call began."""


@final
class ParameterRow(TypedDict):
    """A parameter. The row's `bytes` are all that is live of it."""

    bytes: Bytes
    """What is allocated. For a module, with the modules inside it."""
    cumulative: Bytes
    """The bytes of this row and those above it, none counted twice."""
    count: int
    """How many allocations."""
    median: Bytes
    """The middle one of their sizes; the larger of two."""
    location: str
    """The row's line, module, operator, category or other name."""
    parameter: str | None
    """Its qualified name; null for the row of what belongs to no parameter."""
    shape: str | None
    """Its shape, as Python prints it."""
    dtype: str | None
    """Its dtype."""
    weight: Bytes
    """The parameter itself."""
    gradient: Bytes
    """Its gradient."""
    optimizer_state: Bytes
    """Its optimizer state."""


@final
class PhaseRow(TypedDict):
    """A phase."""

    bytes: Bytes
    """What is allocated. For a module, with the modules inside it."""
    cumulative: Bytes
    """The bytes of this row and those above it, none counted twice."""
    count: int
    """How many allocations."""
    median: Bytes
    """The middle one of their sizes; the larger of two."""
    location: str
    """The row's line, module, operator, category or other name."""
    phase: str | None
    """Its name; null for blocks from before the recording."""
    peak: Bytes | None
    """The peak of allocated bytes while it ran, in the whole recording."""
    peak_seconds: float | None
    """When that was, in seconds since the recording began."""


@final
class CategoryRow(TypedDict):
    """A category."""

    bytes: Bytes
    """What is allocated. For a module, with the modules inside it."""
    cumulative: Bytes
    """The bytes of this row and those above it, none counted twice."""
    count: int
    """How many allocations."""
    median: Bytes
    """The middle one of their sizes; the larger of two."""
    location: str
    """The row's line, module, operator, category or other name."""
    category: Category
    """Its name."""
    peak: Bytes | None
    """Its own peak over the whole recording; null if not requested."""
    largest: list[Largest]
    """Its three largest allocations."""


@final
class TensorRow(TypedDict):
    """One allocation."""

    bytes: Bytes
    """What is allocated. For a module, with the modules inside it."""
    cumulative: Bytes
    """The bytes of this row and those above it, none counted twice."""
    count: int
    """How many allocations."""
    median: Bytes
    """The middle one of their sizes; the larger of two."""
    location: str
    """The row's line, module, operator, category or other name."""
    name: str | None
    """Its qualified name."""
    shape: str | None
    """Its shape, as Python prints it."""
    dtype: str | None
    """Its dtype."""
    category: Category
    """What it is to the program."""
    module: str | None
    """The module that it belongs to."""
    step: int | None
    """The step in which it was allocated."""
    phase: str | None
    """The phase in which it was allocated."""
    allocated_seconds: float | None
    """When it was allocated, in seconds since the recording began; null for what was live
    before."""
    saved_seconds: float | None
    """When autograd first saved it for the backward pass; null where it did not."""
    last_use_seconds: float | None
    """When the backward pass last read what autograd had saved of it: its last use that is
    known."""
    freed_seconds: float | None
    """When it was freed; null for what was live at the end."""


@final
class SegmentRow(TypedDict):
    """A stretch of memory from the driver. The row's `bytes` are allocated in it."""

    bytes: Bytes
    """What is allocated. For a module, with the modules inside it."""
    cumulative: Bytes
    """The bytes of this row and those above it, none counted twice."""
    count: int
    """How many allocations."""
    median: Bytes
    """The middle one of their sizes; the larger of two."""
    location: str
    """The row's line, module, operator, category or other name."""
    address: int
    """Where it begins."""
    segment: Bytes
    """How long it is."""
    pending_free: Bytes
    """Freed, and still used by a stream."""
    free: Bytes
    """Free."""
    largest_free: Bytes
    """The largest free block."""
    picture: str
    """A picture: `█` allocated, `▒` pending, `·` free."""


@final
class StepRow(TypedDict):
    """A step. The row's `bytes` were allocated in it and are live at the time of the report."""

    bytes: Bytes
    """What is allocated. For a module, with the modules inside it."""
    cumulative: Bytes
    """The bytes of this row and those above it, none counted twice."""
    count: int
    """How many allocations."""
    median: Bytes
    """The middle one of their sizes; the larger of two."""
    location: str
    """The row's line, module, operator, category or other name."""
    step: int | None
    """Its number; null for blocks from before the recording."""
    kind: StepKind | None
    """Whether it is a prefill or a decode; null in a program that trains."""
    is_finished: bool | None
    """Whether it ended: the last one does not where the program failed in it, or the recording
    stopped."""
    peak: Bytes | None
    """The peak of allocated bytes during it."""
    end: Bytes | None
    """What was allocated when it ended."""
    growth: int | None
    """`end` less that of the step before."""
    reserved: Bytes | None
    """What was reserved when it ended; null on the CPU."""
    phases: dict[str, Bytes]
    """The peak of allocated bytes in each phase of it."""
    categories: dict[str, Bytes]
    """What its peak was made of, by category."""

# A row of a report: these fields, and those of its grouping.
Row = Union[
    LineRow,
    StackRow,
    ModuleRow,
    OpRow,
    OpCallRow,
    ParameterRow,
    PhaseRow,
    CategoryRow,
    TensorRow,
    SegmentRow,
    StepRow,
]


class Frame(TypedDict):
    """One frame of a stack."""

    file: str
    """The file."""
    line: int
    """The line."""
    function: str
    """The function."""


class Largest(TypedDict):
    """One of the largest allocations of a category."""

    bytes: Bytes
    """Its size."""
    location: str
    """Its name where it has one, otherwise the line that allocated it."""


class Ledger(TypedDict):
    """All memory of a GPU by owner."""

    floodmark: str
    """The version of floodmark that wrote the answer."""
    format: int
    """The version of this JSON: it changes when a field changes its meaning."""
    device: Device
    """The GPU, as torch numbers it."""
    at: Moment
    """The time."""
    sampled_seconds: float
    """When NVML was asked, in seconds since the recording began: the sample nearest to the time."""
    sampled_used: Bytes
    """What was in use then."""
    total: Bytes
    """All memory of the GPU."""
    used: Bytes
    """What was in use at the time, by all processes: the sum of the rows. It is what NVML said,
    changed by as much as torch's reserved bytes have changed since."""
    free: Bytes
    """What was not in use."""
    driver: Bytes | None
    """What the driver keeps for itself, beside the bytes in use; null where NVML counts it in
    them."""
    allocated: Bytes
    """torch's allocated bytes."""
    reserved: Bytes | None
    """torch's reserved bytes; null where the trace does not have them."""
    rows: list[LedgerRow]
    """The owners: torch by category, what it caches, this process outside torch, other
    processes, what is unexplained."""
    notes: list[str]
    """What is unknown or approximate, and why, one sentence each."""
    over_time: list[LedgerPoint]
    """Every sample."""
    losses: Losses
    """What the recording misses."""


class _LedgerRowOptional(TypedDict, total=False):
    category: Category
    """The category; for what torch has allocated."""
    pid: int
    """The number of the process; for another process."""
    name: str
    """The command of the process; for another process that the recorded one could see."""


class LedgerRow(_LedgerRowOptional):
    """The memory of one owner."""

    owner: LedgerOwner
    """Whose memory it is."""
    bytes: int
    """Its bytes. Only what is unexplained can be negative: then the other rows overlap."""


class LedgerPoint(TypedDict):
    """The memory of a GPU at one sample."""

    seconds: float
    """When NVML was asked, in seconds since the recording began."""
    used: Bytes
    """What was in use, by all processes."""
    reserved: Bytes | None
    """torch's reserved bytes; null where the trace does not have them."""
    outside_torch: Bytes | None
    """The recorded process, outside torch's allocator; null where NVML does not say it."""
    other_processes: Bytes | None
    """All other processes that NVML names; null where it lists none."""


class Annotation(TypedDict):
    """A source file with the bytes of each line."""

    floodmark: str
    """The version of floodmark that wrote the answer."""
    format: int
    """The version of this JSON: it changes when a field changes its meaning."""
    device: Device
    """The device."""
    at: Moment
    """The time."""
    file: str
    """The file, as the trace has it."""
    allocated: Bytes
    """torch's total of allocated bytes."""
    in_file: Bytes
    """What lines of this file allocated."""
    other_files: Bytes
    """What lines of other files allocated."""
    without_line: Bytes
    """What has no line: without a Python frame, or from before the recording."""
    lines: list[AnnotatedLine]
    """The lines with allocated bytes, in the order of the file."""
    notes: list[str]
    """What may be wrong with the source."""
    losses: Losses
    """What the recording misses."""


class AnnotatedLine(TypedDict):
    """The bytes of a line of source."""

    line: int
    """The line, from 1."""
    function: str
    """The function."""
    function_line: int
    """The line on which the function begins; 0 where the trace does not have it."""
    bytes: Bytes
    """What is allocated."""
    backward: Bytes
    """The part of it that the backward pass allocated."""
    count: int
    """How many allocations."""
    categories: dict[str, Bytes]
    """The bytes of each category."""


class Diff(TypedDict):
    """The changes between two traces."""

    floodmark: str
    """The version of floodmark that wrote the answer."""
    format: int
    """The version of this JSON: it changes when a field changes its meaning."""
    device: Device
    """The device of the first trace."""
    device_b: Device
    """The device of the second trace."""
    by: By
    """What the rows are."""
    at: MomentOfBoth
    """The times."""
    allocated: Total
    """torch's totals of allocated bytes at these times."""
    active: Total | None
    """torch's totals of active bytes; null for the CPU."""
    reserved: Total | None
    """torch's totals of reserved bytes; null for the CPU."""
    peaks: Peaks
    """The peaks, independent of the times."""
    losses: LossesOfBoth
    """What the recording misses."""
    unchanged_rows: int
    """How many rows are the same in both, in bytes and in count. They are not among the rows."""
    total_rows: int
    """How many rows changed, those left out included."""
    rows: list[DiffRow]
    """The rows that changed, the largest change first."""


class MomentOfBoth(TypedDict):
    """The same of both traces."""

    a: Moment
    """In the first trace."""
    b: Moment
    """In the second one."""


class Total(TypedDict):
    """A number of bytes in both traces."""

    a: Bytes
    """In the first trace."""
    b: Bytes
    """In the second one."""
    change: int
    """`b` minus `a`."""
    percent: float | None
    """The same in percent of `a`; null where `a` is 0."""


class Peaks(TypedDict):
    """The highest totals of both recordings, each at its own time."""

    allocated: Total
    """Peak of allocated bytes."""
    reserved: Total | None
    """The peak of reserved bytes; null for the CPU."""


class LossesOfBoth(TypedDict):
    """The same of both traces."""

    a: Losses
    """In the first trace."""
    b: Losses
    """In the second one."""


@final
class LineDiffRow(TypedDict):
    """A line of the program."""

    change: int
    """`b` minus `a`."""
    a: Bytes
    """What is allocated in the first trace."""
    b: Bytes
    """What is allocated in the second one."""
    count_a: int
    """How many allocations in the first trace."""
    count_b: int
    """How many in the second one."""
    location: str
    """The row's line, module, operator, category or other name."""
    file: str | None
    """The file; null for blocks without a Python frame."""
    line: int | None
    """The line."""
    function: str | None
    """The function."""
    backward: bool
    """Whether the backward pass of this line allocated them."""


@final
class StackDiffRow(TypedDict):
    """A call stack."""

    change: int
    """`b` minus `a`."""
    a: Bytes
    """What is allocated in the first trace."""
    b: Bytes
    """What is allocated in the second one."""
    count_a: int
    """How many allocations in the first trace."""
    count_b: int
    """How many in the second one."""
    location: str
    """The row's line, module, operator, category or other name."""
    frames: list[Frame]
    """Its frames, innermost first."""
    backward: bool
    """Whether the backward pass of this stack allocated them."""


@final
class TensorDiffRow(TypedDict):
    """Tensors with one name, or without a name from one line."""

    change: int
    """`b` minus `a`."""
    a: Bytes
    """What is allocated in the first trace."""
    b: Bytes
    """What is allocated in the second one."""
    count_a: int
    """How many allocations in the first trace."""
    count_b: int
    """How many in the second one."""
    location: str
    """The row's line, module, operator, category or other name."""
    name: str | None
    """The qualified name."""
    shape: str | None
    """The shape, as Python prints it."""
    dtype: str | None
    """The dtype."""
    category: Category
    """Their category."""


@final
class NamedDiffRow(TypedDict):
    """A module, an operator, a phase, a category or a step: `where` is its name."""

    change: int
    """`b` minus `a`."""
    a: Bytes
    """What is allocated in the first trace."""
    b: Bytes
    """What is allocated in the second one."""
    count_a: int
    """How many allocations in the first trace."""
    count_b: int
    """How many in the second one."""
    location: str
    """The row's line, module, operator, category or other name."""

# A row of a diff: these fields, and those of its grouping.
DiffRow = Union[
    LineDiffRow,
    StackDiffRow,
    TensorDiffRow,
    NamedDiffRow,
]


class Leaks(TypedDict):
    """Which lines grow from step to step."""

    floodmark: str
    """The version of floodmark that wrote the answer."""
    format: int
    """The version of this JSON: it changes when a field changes its meaning."""
    device: Device
    """The device."""
    steps: int
    """How many finished steps were looked at: all but the first."""
    growth: int
    """How many more bytes are live when the last of them ends than when the first step ended, of
    all lines."""
    kv_cache_per_step: Bytes | None
    """What the KV cache gains from one decode step to the next, on average; null in a program
    that does not generate."""
    losses: Losses
    """What the recording misses."""
    total_rows: int
    """How many suspects there are, those left out included."""
    rows: list[Leak]
    """The suspects, the one that gains most in a step first."""


class Leak(TypedDict):
    """A line that grows from step to step."""

    bytes_per_step: Bytes
    """What it gains in a step, on average."""
    growth: Bytes
    """What it gained since it began to grow."""
    bytes: Bytes
    """Its live bytes when the last finished step ends."""
    count: int
    """How many more blocks are live since it began to grow."""
    since: int
    """The first step of the growth."""
    steps: int
    """How many steps there are from that one on."""
    grew: int
    """In how many of them it grew."""
    category: Category
    """The category of most of the bytes."""
    location: str
    """The line, in words."""
    file: str | None
    """The file; null for blocks without a Python frame."""
    line: int | None
    """The line."""
    function: str | None
    """The function."""
    module: str | None
    """The module, where all that it gained has the same."""
    backward: bool
    """Whether the backward pass of this line allocated them."""
    frames: list[Frame]
    """The stack of the newest block, innermost frame first."""


class Summary(TypedDict):
    """The contents of a recording."""

    floodmark: str
    """The version of floodmark that wrote the answer."""
    header: Header
    """Where the recording comes from."""
    is_finished: bool
    """Whether the program finished the file."""
    outcome: Outcome
    """How the recording ended."""
    seconds: float
    """How long it took."""
    events: int
    """How many events there are."""
    allocations: int
    """How many allocations were seen; those from before the recording are not counted."""
    steps: int
    """How many steps ended."""
    threads: int
    """How many threads of the program have events."""
    failed_requests: int
    """How many allocations failed."""
    devices: list[DeviceSummary]
    """Every device on which something was allocated, CPU first."""
    losses: Losses
    """What the recording misses."""


class _HeaderOptional(TypedDict, total=False):
    window: Window
    """Which events of the recorder are in it; left out when all are."""
    phantom: Phantom
    """The simulated GPU, where the recording is an estimate."""
    changes: list[AppliedChange]
    """Changes that were applied to the program while it ran."""
    cost: StepCost
    """What a step computes, where it was counted."""


class Header(_HeaderOptional):
    """Where a recording comes from."""

    floodmark: str
    """The version of floodmark that wrote the file."""
    session: str
    """Joins the file to its journal."""
    started_unix_micros: int
    """When the recording began, in microseconds since 1970."""
    pid: int
    """The traced process."""
    command: list[str]
    """Its command line."""
    host: str
    """The machine's name."""
    rank: int | None
    """Its rank, under a launcher."""
    world_size: int | None
    """How many ranks there are."""
    local_rank: int | None
    """Its rank on this machine."""
    python: str
    """`3.12.3`."""
    torch: str
    """`2.11.0+cu130`; empty while torch is not imported."""
    cuda: str
    """The CUDA version that torch was built with."""
    driver: str
    """The driver's version."""
    allocator_backend: str
    """`native`, `cudaMallocAsync`, or a pluggable one."""
    allocator_conf: str
    """`PYTORCH_CUDA_ALLOC_CONF`, as the program saw it."""
    devices: list[DeviceInfo]
    """The devices."""
    recorded: list[str]
    """What was recorded beyond events: `stacks`, `ops`, …."""
    not_recorded: list[str]
    """What could not be recorded, one sentence each."""
    has_initial_blocks: bool
    """Whether blocks from before the recording are in it."""


class _DeviceInfoOptional(TypedDict, total=False):
    uuid: str
    """Its UUID, which NVML knows too; left out where torch does not give it."""


class DeviceInfo(_DeviceInfoOptional):
    """A device that was visible to the program."""

    device: str
    """`cuda:0`."""
    name: str
    """Its name in the driver."""
    total_bytes: int
    """Its memory."""
    compute_capability: str
    """`9.0`."""
    multiprocessors: int
    """How many multiprocessors it has."""


class Window(TypedDict):
    """The recorder's events that belong to a window."""

    number: int
    """Its number among the windows of the process."""
    start_nanos: int
    """When it began, in the time of the journal."""
    cpu: bool
    """Host memory too."""
    cuda: int
    """CUDA devices: a bit for each ordinal."""
    stacks: bool
    """The Python stack of every allocation."""
    ops: bool
    """The operator of every allocation."""
    fake_tensors: bool
    """Blocks of fake tensors, and not those that torch reports."""


class Phantom(TypedDict):
    """A simulated GPU."""

    engine: Engine
    """The engine that simulated it."""
    gpu: str
    """The name of its GPU profile."""
    is_checked: bool
    """Whether estimates with that profile were compared with a real GPU."""
    ended: PhantomEnd
    """How the program ended."""
    error: str
    """The error that ended it; empty when there was none."""
    devices: list[PhantomDevice]
    """The devices."""
    reads: list[PhantomRead]
    """Values that the program read back and that were assumed, not computed."""
    unsupported: list[UnsupportedCall]
    """Calls that the phantom refused."""
    notes: list[str]
    """What is assumed or left out, one sentence each."""
    has_fake_tensors: bool
    """Whether the program had blocks of fake tensors, which allocate nothing here."""


class PhantomDevice(TypedDict):
    """A simulated device."""

    index: int | None
    """Which GPU of the machine it is, where the process sees only some of them."""
    capacity: int
    """Its memory in bytes."""
    context: int
    """The CUDA context."""
    peak_driver_bytes: int
    """The peak of memory allocated from the driver, by torch and by others, without the CUDA
    context."""
    libraries_at_peak: list[LibraryBytes]
    """What CUDA's libraries held then. Empty in files of versions that counted them as a part of
    the context."""


class LibraryBytes(TypedDict):
    """The device memory of a library of CUDA."""

    library: str
    """Which: `cuBLAS`."""
    bytes: int
    """The bytes."""


class PhantomRead(TypedDict):
    """A value that was read back and was assumed, not computed."""

    file: str
    """The file of the line that read it."""
    line: int
    """The number of that line."""
    function: str
    """The function of that line."""
    count: int
    """How often it was read."""
    op: str
    """The operator that computed the value."""
    assumed: str
    """The assumed value."""
    reason: str
    """Why it was not computed."""


class UnsupportedCall(TypedDict):
    """A call that was refused."""

    library: str
    """The library: `cudnn`."""
    name: str
    """The function."""
    count: int
    """How often it was called."""


class AppliedChange(TypedDict):
    """A change that was requested with `--with`."""

    change: str
    """The argument of `--with`: `checkpoint=12`."""
    target: str
    """What it was applied to: `12 of 24 × GPT2Block (transformer.h)`; empty when it was not
    applied."""
    reason: str
    """Why it was not applied; empty when it was."""
    slows: bool
    """Whether the program may become slower by it."""
    numerics: Numerics
    """Its effect on the results."""
    patch: str
    """Plain torch code with the same effect; empty when it was not applied."""
    blocks: int | None
    """How many repeated blocks the model has, where the change counts them."""
    host_bytes: int
    """The bytes that it copied to the host, of all steps."""


class StepCost(TypedDict):
    """The counted computation of a program's last step."""

    backward_passes: int
    """How many backward passes the program made, in all steps."""
    operators: list[OperatorCost]
    """Operators of the same kind, summed."""
    host_nanos: int | None
    """The processor time that the host takes for a step, in nanoseconds; null where it was not
    measured."""


class OperatorCost(TypedDict):
    """Operators of one kind, data type and ratio of operations to bytes."""

    kind: OperatorKind
    """Their kind."""
    dtype: str
    """The data type of their first tensor: `bfloat16`; `tf32` where torch computes products of
    `float32` in it."""
    count: int
    """How many there are."""
    flops: int
    """Their floating-point operations."""
    bytes: int
    """The bytes that they read and write."""


class DeviceSummary(TypedDict):
    """A recording's figures of one device."""

    device: Device
    """Which."""
    name: str
    """What the driver calls it; empty when not known."""
    total: Bytes | None
    """Its memory, where known."""
    allocations: int
    """How many allocations were seen."""
    peak: Bytes
    """Peak of allocated bytes."""
    at: Moment
    """When that was."""
    reserved: Bytes | None
    """Reserved at that moment; null for the CPU."""
    reserved_peak: Bytes | None
    """The peak of reserved bytes; null for the CPU."""
    end: Bytes
    """What was allocated at the end."""
    start: Bytes
    """What was allocated when the recording began."""
    allocated_total: Bytes
    """The bytes of all allocations since then, those that were freed included."""


class RankSummaries(TypedDict):
    """The summaries of the ranks of a folder."""

    floodmark: str
    """The version of floodmark that wrote the answer."""
    ranks: list[Summary]
    """The summaries, by rank."""


class _OomReportOptional(TypedDict, total=False):
    outside_growth: OutsideGrowth
    """How it grew since the first step, if it did and the recording has samples of NVML."""


class OomReport(_OomReportOptional):
    """Why an allocation failed."""

    floodmark: str
    """The version of floodmark that wrote the answer."""
    format: int
    """The version of this JSON: it changes when a field changes its meaning."""
    device: Device
    """The device."""
    at: Moment
    """The time, with the failed allocation."""
    reason: OomReason
    """Why it failed."""
    why: str
    """The same as a sentence, with its figures."""
    segment: Bytes | None
    """The segment that torch requested from the driver; null for the CPU."""
    limit: Bytes | None
    """The most that torch could reserve, where the recording shows it."""
    is_own_limit: bool
    """Whether `set_per_process_memory_fraction` set this limit."""
    total: Bytes | None
    """The memory of the device, where known."""
    device_free: Bytes | None
    """The free memory of the device, if known."""
    outside_torch: Bytes | None
    """Memory in use outside torch, including the CUDA context, if known."""
    reserved: Bytes | None
    """torch's reserved bytes; null for the CPU."""
    unreserved: Bytes | None
    """What torch could still reserve: up to the limit, or all that was free on the device. Null
    where the recording shows neither."""
    allocated: Bytes
    """torch's allocated bytes."""
    is_replayed: bool
    """Whether the trace has the addresses of blocks. Without them, free blocks are unknown."""
    pending_free: Bytes
    """Freed, and still used by a stream."""
    free: Bytes
    """Reserved and free, all together."""
    free_blocks: int
    """How many free blocks there are."""
    largest_free: Bytes
    """The largest of them."""
    usable_free: Bytes
    """Free in the pool and on the stream of the request."""
    usable_blocks: int
    """How many blocks these are."""
    largest_usable: Bytes
    """The largest of them."""
    needed: Bytes | None
    """The least memory beyond the limit with which the allocation succeeds; null when that is
    not known."""
    proofs: list[Proof]
    """Changes that were simulated."""
    is_last: bool
    """Whether nothing was allocated on the device after it: the recording ends there."""
    scope: str
    """A sentence about what the proofs do not cover: later requests of the program."""
    lines: list[Row]
    """Live memory, by line."""
    modules: list[Row]
    """Live memory, by module."""
    losses: Losses
    """What the recording misses."""


class OutsideGrowth(TypedDict):
    """The growth of the memory outside torch, after the first step."""

    bytes: Bytes
    """How much more was in use outside torch than after the first step."""
    own_bytes: int | None
    """The part of it in the recorded process; null where NVML does not say it."""
    step: int
    """The step in which it began."""
    seconds: float
    """When it began, in seconds since the recording began."""


class Proof(TypedDict):
    """Whether the failed allocation would have succeeded with a change. What the program
    requests after it is not known."""

    alloc_conf: str
    """With these settings; those of the recording when there are none."""
    extra_memory: Bytes
    """With this much more memory."""
    fits: bool
    """Whether the allocation would have succeeded."""


class OomMessages(TypedDict):
    """The explained out-of-memory messages of a text."""

    floodmark: str
    """The version of floodmark that wrote the answer."""
    format: int
    """The version of this JSON: it changes when a field changes its meaning."""
    lines: int
    """How many lines the text has."""
    cause: int
    """The message that is most likely the cause of the others: its place in `messages`."""
    messages: list[OomMessage]
    """The messages, in the order of the text, each once."""
    left_out: int
    """How many different messages were left out, after the first ones."""


class OomMessage(TypedDict):
    """One out-of-memory message. Figures are those of the message, rounded as it prints them;
    null where it has none."""

    source: OomSource
    """Which allocator wrote it."""
    reason: OomMessageReason
    """Why the allocation failed."""
    finding: str
    """The evidence for the reason."""
    notes: list[str]
    """Facts beside the reason."""
    missing: list[str]
    """The figures without which the reason is unknown."""
    remedies: list[OomRemedy]
    """What to try, the first thing first."""
    line: int
    """The line of the text on which the message begins, from 1."""
    count: int
    """How many times the same message is in the text."""
    rank: int | None
    """The rank that wrote it, where the line begins with one."""
    frame: Frame | None
    """The innermost frame outside torch of the traceback above the message."""
    device: Device | None
    """The device."""
    requested: Bytes | None
    """The requested bytes: for large requests those of the segment that torch requested from the
    driver."""
    total: Bytes | None
    """The memory of the device."""
    device_free: Bytes | None
    """What was free on the device."""
    limit: Bytes | None
    """The most that torch may reserve."""
    reserved: Bytes | None
    """torch's reserved bytes."""
    allocated: Bytes | None
    """torch's allocated bytes."""
    free: Bytes | None
    """Reserved and free."""
    private_pools: Bytes | None
    """Free in private pools, such as those of CUDA graphs."""
    outside_torch: Bytes | None
    """What is in use outside torch, the CUDA context included."""
    this_process: Bytes | None
    """What this process has in use, the CUDA context included."""
    other_processes: list[ProcessMemory]
    """What other processes have in use."""


class OomRemedy(TypedDict):
    """Something to try."""

    change: str
    """What to do."""
    code: str | None
    """The setting, the command or the code; null where there is none."""


class ProcessMemory(TypedDict):
    """Memory that a process has on the device."""

    process: int
    """The number of the process, as the message has it."""
    bytes: Bytes
    """The memory that it has in use."""


class Simulation(TypedDict):
    """The results of other allocator settings, or of another amount of memory."""

    floodmark: str
    """The version of floodmark that wrote the answer."""
    format: int
    """The version of this JSON: it changes when a field changes its meaning."""
    device: Device
    """The device."""
    torch: TorchVersion
    """The version whose rules were simulated."""
    recorded: RecordedRun
    """What was recorded."""
    is_reproduced: bool
    """Whether the rules reproduce the recording under its own settings."""
    runs: list[SimulatedRun]
    """The simulated runs."""
    best: int | None
    """The number of the best run: none fails, and it reserves least; null when there is one
    only, or all fail."""
    scope: str | None
    """A sentence about what the runs do not show, if the recording has a failed allocation: the
    requests after it."""
    losses: Losses
    """What the recording misses."""


class RecordedRun(TypedDict):
    """What was recorded."""

    alloc_conf: str
    """`PYTORCH_CUDA_ALLOC_CONF`."""
    memory: Bytes | None
    """The most that torch could reserve, where the recording shows it."""
    peak_allocated: Bytes
    """Peak of allocated bytes."""
    peak_reserved: Bytes
    """Peak of reserved bytes."""
    retries: int
    """How often cached memory was returned to the driver to make room."""
    oom: FailedRequest | None
    """The first allocation that failed."""


class FailedRequest(TypedDict):
    """A failed allocation."""

    event: int
    """The number of the event."""
    seconds: float
    """The time, in seconds since the recording began."""
    step: int | None
    """The step, where there are steps."""
    requested: Bytes
    """The requested bytes."""


class SimulatedRun(TypedDict):
    """One simulated run."""

    alloc_conf: str
    """`PYTORCH_CUDA_ALLOC_CONF`."""
    memory: Bytes | None
    """The most that torch could reserve; null for no limit."""
    peak_allocated: Bytes
    """The simulated peak of allocated bytes."""
    peak_reserved: Bytes
    """The simulated peak of reserved bytes."""
    waste: Bytes
    """`peak_reserved` minus `peak_allocated`."""
    retries: int
    """How often cached memory would have been returned to the driver to make room."""
    oom: FailedRequest | None
    """The first allocation that would have failed; the figures end there."""


class AdviceReport(TypedDict):
    """Advice for a program, with the bytes that each change saves."""

    floodmark: str
    """The version of floodmark that wrote the answer."""
    format: int
    """The version of this JSON: it changes when a field changes its meaning."""
    device: Device
    """The device."""
    peak_allocated: Bytes
    """The peak of allocated bytes; after a failed allocation, the peak that its success would
    give."""
    peak_reserved: Bytes | None
    """The peak of reserved bytes, in the same way; null without a caching allocator."""
    failed_requests: int
    """How many allocations failed in the recording."""
    is_reproduced: bool | None
    """Whether the simulation agrees with the recording; null when nothing could be simulated."""
    causes: list[Cause]
    """The causes of live memory at the failed allocation, or else at the peak: the largest
    first."""
    notes: list[str]
    """Checks without a finding, and checks that were not possible."""
    advice: list[Advice]
    """What to change, the largest saving first."""
    losses: Losses
    """What the recording misses."""


class Cause(TypedDict):
    """A part of what is live at the peak."""

    kind: CauseKind
    """What it is."""
    bytes: Bytes
    """How much."""
    count: int
    """How many allocations."""
    name: str
    """Its description."""
    location: str | None
    """The location with most of its bytes."""


class Advice(TypedDict):
    """One change."""

    kind: AdviceKind
    """Its subject."""
    finding: str
    """The finding."""
    change: str
    """What to do."""
    assumes: str
    """The assumptions about the changed program; empty if there are none."""
    saves_allocated: Bytes
    """By how much the peak of allocated bytes falls."""
    saves_reserved: Bytes | None
    """By how much the peak of reserved bytes falls; null without a caching allocator."""
    peak_allocated: Bytes
    """The peak of allocated bytes with the change."""
    peak_reserved: Bytes | None
    """The peak of reserved bytes with the change."""


class Estimate(TypedDict):
    """What a program needs of a simulated GPU, and whether it fits."""

    floodmark: str
    """The version of floodmark that wrote the answer."""
    format: int
    """The version of this JSON: it changes when a field changes its meaning."""
    fits: bool | None
    """Whether every allocation succeeded; null when that is unknown."""
    unknown: Unknown | None
    """Why it is unknown."""
    engine: Engine
    """Which engine simulated the GPU."""
    gpu: str
    """The name of the GPU profile."""
    is_checked: bool
    """Whether that profile was compared with the GPU itself."""
    ended: PhantomEnd
    """How the program ended."""
    error: str
    """The error that ended it; empty without one."""
    rank: int | None
    """Its rank, under a launcher."""
    world_size: int | None
    """How many ranks there are."""
    steps: int
    """How many steps ended."""
    step_peaks: StepPeaks | None
    """Whether the last steps had the same peak; null where the program ended by itself, or made
    too few steps: the first allocates what the second has from the start."""
    whole_run: WholeRun | None
    """What the whole program needs, run again with more memory; null where every allocation
    succeeded, or it was not run again."""
    peak_allocated: Bytes
    """The most that torch had allocated, of all devices."""
    peak_reserved: Bytes
    """The most that torch had reserved, of all devices."""
    processes: int
    """How many processes allocated on a GPU."""
    devices: list[DeviceEstimate]
    """Every device that was used, for each process."""
    shared: list[SharedGpu]
    """GPUs that several processes use."""
    reads: list[PhantomRead]
    """Assumed values: read back by the program, and not computed."""
    unsupported: list[UnsupportedCall]
    """Calls that were refused."""
    changes: list[AppliedChange]
    """Changes that were requested with `--with`."""
    cost: StepCost | None
    """What a step computes; null where it was not counted."""
    op_calls: Report | None
    """The operator calls after which most more was allocated, on the device with the highest
    peak; null where operators were not recorded."""
    notes: list[str]
    """What is assumed or left out."""
    losses: Losses
    """What the recording misses."""


class WholeRun(TypedDict):
    """A program that ran out of memory, run again on simulated GPUs with more of it."""

    needed: Bytes
    """What it needs of the device that needs most."""
    peak_allocated: Bytes
    """The most that torch had allocated, of all devices."""
    peak_reserved: Bytes
    """The most that torch had reserved, of all devices."""
    steps: int
    """How many steps ended."""
    ended: PhantomEnd
    """How the program ended."""
    step_peaks: StepPeaks | None
    """Whether its last steps had the same peak."""


class DeviceEstimate(TypedDict):
    """What a process needs of one device."""

    process: Process | None
    """The process; null where the program has only one."""
    device: Device
    """Which, as the process numbers them."""
    gpu: int
    """Which GPU of the machine it is."""
    name: str
    """The name that the driver reports."""
    capacity: Bytes
    """Its memory."""
    peak_allocated: Bytes
    """The peak of torch's allocated bytes."""
    peak_reserved: Bytes
    """The peak of torch's reserved bytes."""
    outside_torch: Bytes
    """The memory outside torch: the CUDA context, libraries, and what they allocate for the
    program."""
    owners: list[OwnerBytes]
    """The same by owner, the context first."""
    needed: Bytes
    """Reserved by torch and outside torch together, at the time when this is most."""
    is_lower_bound: bool
    """Whether more is needed than `needed`: an allocation failed, and what would have followed
    is unknown."""
    headroom: Bytes
    """The remaining capacity."""
    at: Moment
    """The time of the peak."""
    failed: Moment | None
    """The last allocation that failed."""
    categories: list[Row]
    """Live memory at that time, by category."""
    causes: list[Cause]
    """Live memory at that time, by cause: the largest first."""
    best_settings: str | None
    """The settings of the allocator, of those that were simulated, with which the same requests
    reserve least; null where no others reserve less, or none were simulated. They are for the
    program as it is, where `floodmark plan` asks."""
    peak_parts: PeakParts | None
    """What memory is made of where a change could put the peak; null where `best_settings` were
    not simulated either."""


class Process(TypedDict):
    """A process of a program."""

    pid: int
    """Its id."""
    rank: int | None
    """Its rank, where it has one."""


class OwnerBytes(TypedDict):
    """Memory outside torch."""

    owner: str
    """Who holds it: `CUDA context`, `cuBLAS`."""
    bytes: Bytes
    """The bytes."""


class PeakParts(TypedDict):
    """The memory of one device, by parts, where a change could put the peak."""

    blocks: int | None
    """How many repeated blocks there are; none where none were found."""
    is_half: bool
    """Whether all parameters whose type is known are in 16 bits."""
    trains: bool
    """Whether there was a backward pass."""
    moments: list[dict[str, Bytes]]
    """The moments, each with the bytes of its parts."""


class SharedGpu(TypedDict):
    """A GPU that several processes use."""

    gpu: int
    """Its number on the machine."""
    processes: int
    """How many processes use it."""
    needed: Bytes
    """The memory they need if all reach their peaks at the same time."""
    capacity: Bytes
    """Its memory."""


class Fit(TypedDict):
    """The largest values with which a program fits on a simulated GPU."""

    floodmark: str
    """The version of floodmark that wrote the answer."""
    format: int
    """The version of this JSON: it changes when a field changes its meaning."""
    name: str
    """The name of the first value."""
    names: list[str]
    """The names of all values, in the order of `--vary`."""
    gpu: str
    """The name of the GPU profile."""
    capacity: Bytes
    """The memory of the GPU."""
    largest: int | None
    """The first of the best values; null when nothing fits."""
    best: list[int] | None
    """The values that fit with the largest objective, in the order of the names; null when
    nothing fits."""
    is_last: bool
    """Whether they are the largest values of the question, so that larger ones may fit too."""
    objective: str | None
    """What is to be as large as possible; null where nothing grows."""
    frontier: list[FitPoint]
    """Of every combination of the other values that fits, the largest of the one with the most
    values; the best first."""
    assumptions: list[str]
    """What the search assumed of the program."""
    not_monotone: list[list[int]]
    """Pairs of values of which the larger one needs less memory. Only where one value is varied."""
    tries: list[Try]
    """Every try, smallest values first."""


class FitPoint(TypedDict):
    """A combination that fits, and above which nothing was found to fit."""

    values: list[int]
    """The values, in the order of the names."""
    objective: float | None
    """The objective; null where there is none."""
    peak_allocated: Bytes
    """The most that torch had allocated, of all devices."""
    peak_reserved: Bytes
    """The most that torch had reserved, of all devices."""
    needed: Bytes
    """What it needs with the CUDA context."""


class Try(TypedDict):
    """One estimate."""

    value: int
    """The first value."""
    values: list[int]
    """All values, in the order of the names."""
    fits: bool
    """Whether it fits."""
    peak_allocated: Bytes
    """The most that torch had allocated, of all devices."""
    peak_reserved: Bytes
    """The most that torch had reserved, of all devices."""
    needed: Bytes
    """What it needs with the CUDA context; a lower bound when it does not fit."""
    steps: int
    """How many steps ended."""
    ended: PhantomEnd
    """How the program ended."""
    step_peaks: StepPeaks | None
    """Whether its last steps had the same peak; null where it ended by itself, or made too few
    steps."""
    seconds: float
    """How long the try took."""
    from_earlier_run: int | None
    """When it ran, where the answer is from an earlier run: seconds since 1970; null where it
    ran now."""


class Plan(TypedDict):
    """What to change so that a program fits on a simulated GPU. A trace may have one that an
    older floodmark wrote, so every field may be missing."""

    floodmark: str
    """The version of floodmark that wrote the answer."""
    format: int
    """The version of this JSON: it changes when a field changes its meaning."""
    gpu: str
    """The name of the GPU."""
    capacity: Bytes
    """Its memory."""
    unchanged: PlanTry | None
    """The program as it is."""
    causes: list[Cause]
    """What fills its peak, by what could be changed: the largest cause first."""
    plan: PlanTry | None
    """The cheapest changes with which it fits, none for a program that fits as it is; null where
    nothing fits."""
    is_proven: bool
    """Whether the program was run with the plan on the GPU itself, and every allocation
    succeeded."""
    changes: list[PlanChange]
    """The changes of the plan, with what each of them costs."""
    patch: str
    """Plain torch code that does what the plan does; empty without a plan."""
    command: str
    """A command that runs the program with the plan, without editing it; empty without a plan."""
    floor: Bytes
    """The least memory of all tries."""
    floor_try: PlanTry | None
    """The try that needs the least."""
    floor_causes: list[Cause]
    """What remains at its peak: the largest cause first."""
    next_steps: list[NextStep]
    """Where nothing fits: what does, as tried. A larger GPU, or more of them."""
    tries: list[PlanTry]
    """Every try, the largest need first."""
    left_out: list[LeftOut]
    """Changes that are no candidates."""
    not_tried: list[str]
    """Combinations for which there was no time."""
    runs: list[PlanRun]
    """Every run of the program that this command made, with its time; the proof of the plan is
    one of them."""
    tries_note: str | None
    """Why every try is a new process, which takes longer, or why figures of tries may differ by
    chance; null where neither is so."""


class PlanTry(TypedDict):
    """One combination of changes."""

    changes: list[str]
    """The changes, as behind `--with`."""
    targets: list[str]
    """What each was applied to."""
    peak_allocated: Bytes
    """The most that torch had allocated."""
    peak_reserved: Bytes
    """The most that torch had reserved: where memory is plenty, or on the GPU itself where it
    fits there alone."""
    needed: Bytes
    """What it needs with the CUDA context, likewise."""
    fits: bool
    """Whether it fits."""
    frees_cached_blocks: bool
    """Whether it fits because torch frees cached blocks, which it would keep where memory is
    plenty."""
    steps: int
    """How many steps ended."""
    ended: PhantomEnd
    """How the program ended."""
    step_peaks: StepPeaks | None
    """Whether its last steps had the same peak; null where it ended by itself, or made too few
    steps."""
    from_earlier_run: int | None
    """When it ran, where the answer is from an earlier run: seconds since 1970; null where it
    ran now."""
    slows: bool
    """Whether a change may slow it down."""
    numerics: Numerics
    """What the changes do to the results."""
    compute: float | None
    """The floating-point operations of a step, as a multiple of those without changes; null
    where unknown."""
    slow_down: float | None
    """The estimated time of a step, as a multiple of that without changes; null where unknown."""
    step_time: StepTime | None
    """The estimated time of a step on the GPU and on its host; null where it was not measured."""
    limited_by: StepLimit | None
    """Which of them a step waits for, as estimated; null where unknown."""
    host_bytes: int | None
    """The bytes of a step that pass between host and device; null where they were not counted."""
    gpus: int
    """How many GPUs it takes: each needs this memory."""
    is_best: bool
    """Whether no other try needs less memory without more time, more GPUs or a larger change of
    the results."""
    is_on_curve: bool
    """Whether no other try needs less memory without more time, whatever becomes of the results:
    the points of the curve of memory against time. False where the time is unknown."""


class StepTime(TypedDict):
    """How long a step takes, estimated."""

    gpu_seconds: float
    """The seconds in which the GPU computes."""
    host_seconds: float
    """The seconds in which the host starts operators."""


class PlanChange(TypedDict):
    """One change of the plan."""

    change: str
    """As behind `--with`."""
    target: str
    """What it was applied to."""
    saves: Bytes | None
    """The bytes that it saves alone; null where it was not tried alone."""
    slows: bool
    """Whether it may slow the program down."""
    numerics: Numerics
    """What it does to the results."""
    compute: float | None
    """The floating-point operations of a step with it alone, as a multiple of those without;
    null where unknown."""
    slow_down: float | None
    """The estimated time of a step with it alone, as a multiple of that without; null where
    unknown."""


class NextStep(TypedDict):
    """A way to run the program where no change of it is enough."""

    gpu: str
    """The name of the GPU."""
    capacity: Bytes
    """Its memory."""
    profile: str
    """As behind `--gpu`; empty for the GPU that the plan is for."""
    gpus: int
    """How many of them."""
    changes: list[str]
    """The changes with which the program was run on it, and fits."""
    needed: Bytes
    """What each GPU needs."""


class LeftOut(TypedDict):
    """A change that is no candidate."""

    changes: str
    """The changes, as behind `--with`."""
    reason: str
    """Why."""


class PlanRun(TypedDict):
    """A run of the program that this command made."""

    changes: list[str]
    """The changes, as behind `--with`."""
    asked: Asked
    """What it was for."""
    seconds: float
    """How long it took, beside those that ran at the same time."""


class GpuRow(TypedDict):
    """A GPU that can be simulated."""

    gpu: str
    """Its name on the command line."""
    profile: GpuProfile
    """Its profile."""


class GpuProfile(TypedDict):
    """A GPU profile."""

    name: str
    """The name that the driver reports."""
    aliases: list[str]
    """Other names on the command line."""
    capability: str
    """The compute capability: `9.0`."""
    multiprocessors: int
    """How many multiprocessors it has."""
    clusters: list[int]
    """How many clusters of 1, 2, 3 … thread blocks run at once
    (`cudaOccupancyMaxActiveClusters`), where each block takes all of its multiprocessor;
    without it as many as the number of multiprocessors allows."""
    memory: int
    """Its memory in bytes, as CUDA gives it."""
    context: int
    """The CUDA context, in bytes. What libraries hold comes on top as a program uses them."""
    shared_per_block: int
    """Shared memory of a block by default, in bytes."""
    shared_per_block_optin: int
    """Shared memory that a block may opt in to, in bytes."""
    shared_per_multiprocessor: int
    """Shared memory of a multiprocessor, in bytes."""
    registers_per_multiprocessor: int
    """Registers of a multiprocessor."""
    threads_per_multiprocessor: int
    """How many threads a multiprocessor runs at most."""
    blocks_per_multiprocessor: int
    """How many thread blocks a multiprocessor runs at most."""
    warp_size: int
    """How many threads a warp has."""
    l2: int
    """The L2 cache, in bytes."""
    clock_khz: int
    """The highest clock of the multiprocessors."""
    memory_clock_khz: int
    """The clock of the memory."""
    bus_width: int
    """The width of the memory bus, in bits."""
    nvlinks: int
    """How many NVLink links it has to the other GPUs of its machine; 0 where they are reached
    over PCIe."""
    checked: bool
    """Whether estimates with this profile were compared with a real GPU."""
    rates: Rates | None
    """Rates that it reaches, for the time of a step."""


class Rates(TypedDict):
    """Rates that a GPU reaches."""

    half_gflops: int
    """Matrix products in bf16 and fp16, in 10⁹ operations a second."""
    single_gflops: int
    """Matrix products in fp32, in 10⁹ operations a second."""
    tf32_gflops: int | None
    """Matrix products and convolutions in TF32, in 10⁹ operations a second; half of those in
    bf16 where it is not stated."""
    attention_gflops: int
    """Attention in one kernel, in bf16 and fp16, in 10⁹ operations a second."""
    memory_mb_per_s: int
    """The GPU's own memory, read and written, in 10⁶ bytes a second."""
    host_mb_per_s: int
    """Copies from and to pinned memory of the host, in 10⁶ bytes a second."""
    kernel_nanos: int
    """The shortest time of a kernel on the GPU, in nanoseconds."""
    launch_nanos: int
    """The time that the host takes to start an operator, in nanoseconds, where it was not
    measured."""
    driver_nanos: int
    """The part of it that is the driver's, in nanoseconds."""


class Doctor(TypedDict):
    """The result of checking an environment."""

    format: int
    """The version of this answer."""
    can_record: bool
    """Whether a program can be recorded."""
    can_estimate: bool
    """Whether a program can run on a simulated GPU."""
    checks: list[DoctorCheck]
    """The checks, in the order of the table."""


class _DoctorCheckOptional(TypedDict, total=False):
    hint: str
    """What to do if it failed."""


class DoctorCheck(_DoctorCheckOptional):
    """One check."""

    name: str
    """The name of the check."""
    status: CheckStatus
    """Its result."""
    result: str
    """Details. The home folder is written as `~`."""


class TensorLifetime(TypedDict):
    """A tensor, and the module that it belongs to."""

    device: Device
    """Its device."""
    address: int
    """The address there: while it is live, that of the tensor's storage."""
    module: str | None
    """The qualified name of its module; null where it belongs to none."""
    step: int | None
    """The step in which it was allocated, where there are steps."""
    id: int
    """Which allocation."""
    name: str
    """Its name where it has one, otherwise the line that allocated it."""
    bytes: Bytes
    """Its size."""
    category: Category
    """What it is to the program."""
    phase: str | None
    """The phase in which it was allocated; null for what was live before the recording."""
    allocated_seconds: float
    """When it was allocated, in seconds since the recording began; 0 for what was live before."""
    saved_seconds: float | None
    """When autograd first saved it for the backward pass; null where it did not."""
    retained_until_seconds: float | None
    """When the backward pass began that an activation was retained for."""
    last_use_seconds: float | None
    """When the backward pass last read what autograd had saved of it: its last use that is
    known."""
    freed_seconds: float | None
    """When it was freed; null for what was live at the end."""


class CategoryPeak(TypedDict):
    """The peaks of one category."""

    category: Category
    """The category of the allocations."""
    peak: Bytes
    """The most bytes of them at one time."""
    backward_peak: Bytes
    """The same of those that the backward pass allocated."""


class StepTotals(TypedDict):
    """One device in one step that ended."""

    step: int
    """The number of the step, from its record."""
    device: Device
    """Where."""
    peak: Bytes
    """The peak of allocated bytes during it, including its beginning."""
    end: Bytes
    """The allocated bytes at its end."""
    reserved_peak: Bytes
    """The peak of reserved bytes during it; 0 if nothing is reserved."""
    reserved: Bytes
    """The reserved bytes at its end; 0 if nothing is reserved."""

# The summary of a trace, or of each rank of a folder.
Info = Union[Summary, RankSummaries]
