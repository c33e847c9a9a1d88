"""What the Rust core offers. Written by hand; `make check` proves it against the module."""

import os
from collections.abc import Callable
from typing import Any, ClassVar, Literal, final

__all__ = [
    "LEAST_MEMORY_BYTES",
    "Advice",
    "AnswerKind",
    "AttentionKernel",
    "BlockSource",
    "Certainty",
    "Diff",
    "DoctorRequest",
    "Estimate",
    "EstimateRequest",
    "FloodmarkError",
    "FunctionKind",
    "Functions",
    "Kernel",
    "KernelKind",
    "Leaks",
    "Ledger",
    "MayReplace",
    "Oom",
    "OomMessages",
    "OperatorKind",
    "Operators",
    "OptimizerHooks",
    "OwnWork",
    "PhantomError",
    "PhantomLibrary",
    "PhantomMachine",
    "Report",
    "RunRequest",
    "RunningSteps",
    "Simulation",
    "SnapshotError",
    "TeFusedAttention",
    "TeLayout",
    "TeNorm",
    "TeQuantizer",
    "Trace",
    "UnsupportedCall",
    "Window",
    "__version__",
    "attach_names",
    "attach_ops",
    "attach_torch",
    "attach_tracker",
    "begin_phase",
    "call_on_own_thread",
    "cudnn_dropout_state_bytes",
    "cut_stacks",
    "disarm",
    "draw",
    "end_phase",
    "explain_oom",
    "forget_names",
    "is_being_recorded",
    "is_recording",
    "label_tensor",
    "lend_cuda",
    "main",
    "mark",
    "parse_change",
    "parse_size",
    "phantom_image",
    "prove",
    "prove_tensors",
    "record_host_blocks",
    "record_initial_blocks",
    "recording_options",
    "set_address_finder",
    "show_doctor",
    "step",
    "strings_to_prove_with",
    "te_dropout_mask_bytes",
    "te_float8_buffers",
    "te_transposed",
    "terminal_safe",
    "use_slow_stacks",
]

__version__: str
#: The least `max_memory`.
LEAST_MEMORY_BYTES: int

class FloodmarkError(Exception): ...
class PhantomError(FloodmarkError): ...
class SnapshotError(FloodmarkError): ...

@final
class RunRequest:
    @property
    def output(self) -> os.PathLike[str] | None: ...
    @property
    def script(self) -> str | None: ...
    @property
    def module(self) -> str | None: ...
    @property
    def args(self) -> list[str]: ...
    @property
    def devices(self) -> list[str] | None: ...
    @property
    def recording(self) -> str: ...
    @property
    def quiet(self) -> bool: ...
    @property
    def force(self) -> bool: ...
    @property
    def changes(self) -> list[str]: ...
    @property
    def hint(self) -> str | None: ...

@final
class BlockSource:
    """What reports the blocks of a window."""

    TORCH: ClassVar[BlockSource]
    FAKE: ClassVar[BlockSource]
    FAKE_WITHOUT_DEVICE: ClassVar[BlockSource]

@final
class AnswerKind:
    """What a thread reads from a simulated GPU where no value is known."""

    ZERO: ClassVar[AnswerKind]
    NUMBER: ClassVar[AnswerKind]
    TRUTH_VALUES: ClassVar[AnswerKind]
    def __int__(self) -> int: ...

@final
class Certainty:
    """How certain the value of a byte is, the least first."""

    NOTHING: ClassVar[Certainty]
    ASSUMED: ClassVar[Certainty]
    SAMPLED: ClassVar[Certainty]
    RANDOM: ClassVar[Certainty]
    KNOWN: ClassVar[Certainty]
    def __int__(self) -> int: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __lt__(self, other: Certainty, /) -> bool: ...
    def __le__(self, other: Certainty, /) -> bool: ...
    def __gt__(self, other: Certainty, /) -> bool: ...
    def __ge__(self, other: Certainty, /) -> bool: ...

@final
class OwnWork:
    """Calls functions of ours, hidden from the program."""

    def __new__(
        cls,
        no_functions: object,
        keys: object,
        with_and_without: tuple[object, object],
        set_profiled: object,
        tracer: object,
        set_tracer: object,
    ) -> OwnWork: ...
    def __call__(self, function: object, *args: object) -> Any: ...

@final
class FunctionKind:
    """What is done about a function of torch."""

    THROUGH: ClassVar[FunctionKind]
    EXAMINE: ClassVar[FunctionKind]
    WRITE: ClassVar[FunctionKind]
    READ: ClassVar[FunctionKind]
    OPERATOR: ClassVar[FunctionKind]
    ELEMENTWISE: ClassVar[FunctionKind]
    def __int__(self) -> int: ...

@final
class Functions:
    """Stands where torch looks for a mode's `__torch_function__`."""

    def __new__(
        cls,
        values: object,
        own_work: OwnWork,
        tensor: type,
        parameter: type,
        getter: type,
        floats: list[object],
        transform: object,
        is_transformed: object,
        has_byte: object,
    ) -> Functions: ...
    def __call__(
        self,
        _mode: object,
        func: object,
        types: object,
        args: tuple[object, ...],
        kwargs: dict[str, object] | None = None,
    ) -> object: ...

@final
class KernelKind:
    """What a kernel does beside calling the device's."""

    COUNT: ClassVar[KernelKind]
    FOLLOW: ClassVar[KernelKind]
    FOLLOW_UNSEEN: ClassVar[KernelKind]
    def __int__(self) -> int: ...

@final
class Kernel:
    """Stands in front of the device's kernel of one operator, below autograd."""

    def __new__(
        cls,
        values: object,
        own_work: OwnWork,
        operator: object,
        redispatch: object,
        tensor_of: object,
        tensors: list[int],
        below: object,
        devices: list[object],
        floats: list[object],
        kind: KernelKind,
    ) -> Kernel: ...
    def __call__(self, keys: object, *args: object, **kwargs: object) -> object: ...

@final
class OperatorKind:
    """What an operator does to storages."""

    PLAIN: ClassVar[OperatorKind]
    VIEW: ClassVar[OperatorKind]
    RESIZE: ClassVar[OperatorKind]
    DEVICE: ClassVar[OperatorKind]
    def __int__(self) -> int: ...

@final
class Operators:
    """Stands where torch looks for a mode's `__torch_dispatch__`."""

    def __new__(
        cls,
        front: object,
        fake_tensor: type,
        reference: type,
        dtypes: list[tuple[object, str, int]],
        *,
        torch: tuple[int, int],
        capability: int,
        multiprocessors: int,
        capacity: int | None,
        config: str,
        cublas: str | None,
    ) -> Operators: ...
    def __call__(
        self,
        _mode: object,
        func: object,
        types: object,
        args: tuple[object, ...],
        kwargs: dict[str, object] | None = None,
    ) -> object: ...
    def resized(self, storage: object) -> None: ...
    def adopt(self, tensor: object, op: str) -> None: ...
    def address(self, storage: int) -> int: ...
    def level(self, device: object) -> tuple[int, int, int, int]: ...
    def libraries(self, device: object) -> list[tuple[str, int]]: ...
    def reset_peaks(self) -> None: ...
    def empty_cache(self) -> None: ...
    def forget(self) -> None: ...
    def close(self) -> None: ...

@final
class AttentionKernel:
    """A kernel for scaled dot product attention."""

    CUDNN: ClassVar[AttentionKernel]
    FLASH: ClassVar[AttentionKernel]
    EFFICIENT: ClassVar[AttentionKernel]
    MATH: ClassVar[AttentionKernel]
    @staticmethod
    def chosen_for(
        query: list[int],
        value: list[int],
        *,
        dtype: str,
        has_mask: bool,
        dropout: float,
        is_grouped: bool,
        torch: tuple[int, int],
        capability: tuple[int, int],
    ) -> AttentionKernel: ...

def cudnn_dropout_state_bytes(multiprocessors: int) -> int: ...

@final
class TeQuantizer:
    """How Transformer Engine quantizes a result."""

    ABSENT: ClassVar[TeQuantizer]
    DELAYED_SCALING: ClassVar[TeQuantizer]
    CURRENT_SCALING: ClassVar[TeQuantizer]
    MXFP8: ClassVar[TeQuantizer]
    OTHER: ClassVar[TeQuantizer]
    def is_per_tensor(self) -> bool: ...
    def is_cast_by_product(self, has_quantized_operand: bool) -> bool: ...
    def is_cast_by_activation(self) -> bool: ...
    def is_cast_by_norm(self) -> bool: ...
    def is_cast_by_attention(self) -> bool: ...
    def sums_while_casting(
        self, rowwise: bool, columnwise: bool, capability: tuple[int, int]
    ) -> bool: ...

def te_float8_buffers(
    sizes: list[int], *, rowwise: bool, columnwise: bool, transposes: bool
) -> tuple[list[int] | None, list[int] | None]: ...
def te_transposed(sizes: list[int]) -> list[int]: ...
def te_dropout_mask_bytes(elements: int) -> int: ...

@final
class TeNorm:
    """A norm of Transformer Engine."""

    LAYER: ClassVar[TeNorm]
    RMS: ClassVar[TeNorm]
    def backward_workspace(self, rows: int, width: int, multiprocessors: int) -> list[int]: ...

@final
class TeFusedAttention:
    """The kernel of cuDNN for an attention of Transformer Engine."""

    HALF: ClassVar[TeFusedAttention]
    FLOAT8: ClassVar[TeFusedAttention]
    UNALIGNED_HEAD: ClassVar[TeFusedAttention]
    UNSUPPORTED: ClassVar[TeFusedAttention]
    @staticmethod
    def chosen_for(
        query_head: int,
        value_head: int,
        *,
        is_half: bool,
        is_float8: bool,
        capability: tuple[int, int],
    ) -> TeFusedAttention: ...

@final
class TeLayout:
    """How queries, keys and values of Transformer Engine lie."""

    def __new__(cls, name: str) -> TeLayout: ...
    def output(self, format: str, queries: list[int], value_head: int) -> list[int]: ...
    def softmax_sums(self, queries: list[int], longest: int) -> list[int]: ...
    def heads(self, queries: list[int]) -> int: ...
    def gradients(
        self, after: TeLayout, queries: list[int], keys: list[int], values: list[int]
    ) -> list[tuple[list[int], int | None]]: ...
    def backward_workspace(
        self, queries: list[int], keys: list[int], element_bytes: int
    ) -> int: ...

@final
class PhantomMachine:
    def __new__(
        cls,
        gpu: str,
        *,
        memory: int | None = None,
        gpus: int = 1,
        ranks: tuple[int, int] | None = None,
        answers: list[str] = ...,
    ) -> PhantomMachine: ...
    @property
    def gpu(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def is_checked(self) -> bool: ...
    @property
    def memory(self) -> int: ...
    @property
    def context(self) -> int: ...
    @property
    def gpus(self) -> int: ...
    @property
    def rank(self) -> int | None: ...
    @property
    def world(self) -> int | None: ...
    @property
    def answers(self) -> list[tuple[str, int, float]]: ...
    @property
    def capability(self) -> tuple[int, int]: ...
    @property
    def multiprocessors(self) -> int: ...
    @property
    def warp_size(self) -> int: ...
    @property
    def threads_per_multiprocessor(self) -> int: ...
    @property
    def registers_per_multiprocessor(self) -> int: ...
    @property
    def shared_per_block(self) -> int: ...
    @property
    def shared_per_block_optin(self) -> int: ...
    @property
    def shared_per_multiprocessor(self) -> int: ...
    @property
    def l2(self) -> int: ...
    @staticmethod
    def from_json(text: str) -> PhantomMachine: ...
    def to_json(self) -> str: ...
    def as_rank(self, rank: int) -> PhantomMachine: ...
    def __eq__(self, value: object, /) -> bool: ...
    def __ne__(self, value: object, /) -> bool: ...

@final
class UnsupportedCall:
    @property
    def library(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def count(self) -> int: ...

@final
class PhantomLibrary:
    @staticmethod
    def start(
        machine: PhantomMachine,
        *,
        cuda: int,
        cudnn: str,
        nccl: int,
        started: PhantomLibrary | None = None,
    ) -> PhantomLibrary: ...
    def claim(self) -> None: ...
    def take_over(self) -> bool: ...
    def restore(self) -> None: ...
    def unsupported(self) -> list[UnsupportedCall]: ...
    def devices(self) -> list[tuple[int, int, int, int, list[tuple[str, int]]]]: ...
    def certainty(self, addr: int, length: int) -> Certainty: ...
    def has_value(self, addr: int, length: int) -> bool: ...
    def set_certainty(self, addr: int, length: int, certainty: Certainty) -> None: ...
    def set_answer(self, kind: AnswerKind, value: int) -> None: ...
    def set_group_size(self, color: int, ranks: int) -> None: ...

@final
class EstimateRequest:
    @staticmethod
    def from_json(text: str) -> EstimateRequest: ...
    @property
    def run(self) -> RunRequest: ...
    @property
    def engine(self) -> Literal["phantom", "fake"] | None: ...
    @property
    def machine(self) -> PhantomMachine: ...
    @property
    def steps(self) -> int | None: ...
    @property
    def until_steady(self) -> bool: ...
    @property
    def reruns(self) -> bool: ...
    @property
    def counts_operators(self) -> bool: ...
    @property
    def measures_step(self) -> bool: ...
    def printed(self, estimate: Estimate) -> str: ...

@final
class RunningSteps:
    def __new__(cls) -> RunningSteps: ...
    def begin(self, depth: int) -> int: ...
    def end(self, depth: int) -> int: ...
    @property
    def depth(self) -> int: ...

@final
class OptimizerHooks:
    def __new__(cls) -> OptimizerHooks: ...
    def remove(self) -> None: ...
    def before(
        self, optimizer: object, _args: tuple[object, ...], _kwargs: dict[str, object]
    ) -> None: ...
    def after(
        self, optimizer: object, _args: tuple[object, ...], _kwargs: dict[str, object]
    ) -> None: ...

@final
class Report:
    def to_json(self) -> str: ...
    def _repr_html_(self) -> str: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Diff:
    def to_json(self) -> str: ...
    def _repr_html_(self) -> str: ...

@final
class Leaks:
    def to_json(self) -> str: ...
    def _repr_html_(self) -> str: ...

@final
class Ledger:
    def to_json(self) -> str: ...
    def _repr_html_(self) -> str: ...

@final
class Simulation:
    def to_json(self) -> str: ...
    def _repr_html_(self) -> str: ...

@final
class Oom:
    def to_json(self) -> str: ...
    def _repr_html_(self) -> str: ...

@final
class OomMessages:
    def to_json(self) -> str: ...
    def _repr_html_(self) -> str: ...

def explain_oom(text: str) -> OomMessages: ...

@final
class Advice:
    def to_json(self) -> str: ...
    def _repr_html_(self) -> str: ...

@final
class Estimate:
    def to_json(self) -> str: ...
    def _repr_html_(self) -> str: ...

@final
class Trace:
    @staticmethod
    def open(path: str | os.PathLike[str]) -> Trace: ...
    def report(
        self,
        *,
        by: str,
        at: str,
        device: str | None,
        top: int | None,
        torch_frames: bool,
    ) -> Report: ...
    def diff(
        self,
        other: Trace,
        *,
        by: str,
        at: str,
        device: str | None,
        top: int | None,
        torch_frames: bool,
    ) -> Diff: ...
    def leaks(self, *, device: str | None, top: int | None) -> Leaks: ...
    def ledger(self, *, at: str, device: str | None) -> Ledger: ...
    def lifetimes(self, *, device: str | None) -> str: ...
    def simulate(
        self,
        *,
        alloc_confs: list[str],
        memory: int | None,
        torch: str | None,
        sweep: bool,
        device: str | None,
    ) -> Simulation: ...
    def oom(self, *, device: str | None, top: int | None) -> Oom: ...
    def advise(self, *, device: str | None) -> Advice: ...
    def estimate(self) -> Estimate: ...
    def estimate_with(self, others: list[Trace], end: str, rerun: Estimate | None) -> Estimate: ...
    def export(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        to: str | None = None,
        device: str | None = None,
        layers: str | None = None,
        max_events: int | None = None,
        fragmentation: bool = True,
    ) -> bytes | None: ...
    def category_peaks(self, *, device: str | None) -> str: ...
    def layers(
        self, *, device: str | None, layers: str, max_events: int, fragmentation: bool
    ) -> bytes: ...
    def levels_at_steps(self, *, device: str | None, first: int) -> list[tuple[int, int, int]]: ...
    def summary(self) -> str: ...
    def summary_text(self) -> str: ...
    def header(self) -> str: ...

@final
class DoctorRequest:
    @property
    def json(self) -> bool: ...

def phantom_image() -> bytes:
    """The bytes of the phantom GPU's library, to be loaded before torch is."""

def main(
    args: list[str], python: str
) -> int | str | RunRequest | EstimateRequest | DoctorRequest: ...
def parse_change(text: str) -> tuple[str, str]: ...
def show_doctor(facts: str, json: bool) -> int: ...

@final
class MayReplace:
    """What may be replaced at the path of a trace."""

    NOTHING: ClassVar[MayReplace]
    TRACE: ClassVar[MayReplace]
    ANY_FILE: ClassVar[MayReplace]
    def __int__(self) -> int: ...

@final
class Window:
    @property
    def is_attached(self) -> bool: ...
    @property
    def has_cpu(self) -> bool: ...
    @property
    def has_cuda(self) -> bool: ...
    @property
    def is_renewed(self) -> bool: ...
    def __new__(
        cls,
        path: str | os.PathLike[str] | None,
        *,
        spill: str | os.PathLike[str],
        replace: MayReplace,
        cpu: bool,
        cuda: int,
        source: BlockSource,
        recording: str,
        header: str,
        own_folders: list[str],
    ) -> Window: ...
    def close(self) -> None: ...
    def written(self) -> tuple[int, int, str]: ...
    def update_header(self, header: str) -> None: ...
    def trace(self) -> Trace: ...
    def write_to(self, path: str | os.PathLike[str]) -> None: ...
    def step(self) -> int: ...
    def begin_phase(self, name: str) -> None: ...
    def end_phase(self) -> None: ...
    def ended_steps(self, first: int, wait_millis: int) -> str: ...
    def peaks(self, wait_millis: int) -> list[tuple[str, int]]: ...

def draw(chart: str, to: str) -> bytes: ...
def parse_size(text: str) -> int: ...
def terminal_safe(text: str) -> str: ...
def recording_options(given: str) -> str: ...
def is_being_recorded(path: str | os.PathLike[str]) -> bool: ...
def is_recording() -> bool: ...
def attach_ops() -> bool: ...
def attach_torch(folder: str) -> list[str] | None: ...
def attach_tracker(has_pools: bool) -> bool: ...
def cut_stacks() -> tuple[int, int]: ...
def call_on_own_thread(function: Callable[[], object]) -> None: ...
def disarm() -> None: ...
def lend_cuda(is_lent: bool) -> None: ...
def strings_to_prove_with() -> tuple[str, str, str, str]: ...
def prove(
    minor_version: int,
    frames: list[tuple[int, int, int]],
    codes: list[tuple[int, int, int, int, int]],
    strings: tuple[int, int, int, int],
) -> str | None: ...
def use_slow_stacks() -> bool: ...
def attach_names(torch: dict[str, object]) -> None: ...
def forget_names() -> None: ...
def label_tensor(tensor: object, category: str, name: str) -> None: ...
def set_address_finder(find: Callable[[int], int] | None) -> Callable[[int], int] | None: ...
def record_initial_blocks(
    list_blocks: Callable[[], list[tuple[str, int, int, int, int, bool]]],
) -> None: ...
def prove_tensors(tensor: int, storage: int, data: int, bytes: int, empty: int) -> bool: ...
def record_host_blocks() -> int | None: ...
def step() -> int | None: ...
def mark(name: str) -> None: ...
def begin_phase(name: str) -> None: ...
def end_phase() -> None: ...
