"""What the Rust core offers. Written by hand; `make check` proves it against the module."""

import os
from typing import final

__all__ = [
    "Advice",
    "Diff",
    "Estimate",
    "EstimatePlan",
    "FloodmarkError",
    "Functions",
    "Kernel",
    "LabelSet",
    "Leaks",
    "Oom",
    "Operators",
    "PhantomError",
    "PhantomMachine",
    "Report",
    "RunPlan",
    "Simulation",
    "SnapshotError",
    "Trace",
    "__version__",
    "attach_torch",
    "attach_tracker",
    "attend",
    "base",
    "base_of_host",
    "begin_phase",
    "define_label",
    "draw",
    "end_phase",
    "ended_steps",
    "forget_module",
    "is_being_recorded",
    "is_recording",
    "label",
    "main",
    "mark",
    "name_modules",
    "note_optimizer",
    "peaks",
    "phantom_image",
    "prove",
    "prove_tensors",
    "start",
    "step",
    "stop",
    "strings_to_prove_with",
    "update_header",
    "use_slow_stacks",
]

__version__: str

class FloodmarkError(Exception): ...
class PhantomError(FloodmarkError): ...
class SnapshotError(FloodmarkError): ...

@final
class RunPlan:
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
    def stacks(self) -> bool: ...
    @property
    def ops(self) -> bool: ...
    @property
    def max_memory(self) -> int: ...
    @property
    def follow_fork(self) -> bool: ...
    @property
    def quiet(self) -> bool: ...
    @property
    def force(self) -> bool: ...
    @property
    def hint(self) -> str | None: ...

@final
class Functions:
    """Stands where torch looks for a mode's `__torch_function__`."""

    def __new__(
        cls,
        values: object,
        tensor: type,
        parameter: type,
        getter: type,
        floats: list[object],
        transform: object,
        is_transformed: object,
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
class Kernel:
    """Stands in front of the device's kernel of one operator, below autograd."""

    def __new__(
        cls,
        values: object,
        operator: object,
        redispatch: object,
        tensor_of: object,
        tensors: list[int],
        below: object,
        devices: list[object],
        floats: list[object],
        kind: int,
    ) -> Kernel: ...
    def __call__(self, keys: object, *args: object, **kwargs: object) -> object: ...

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
    def reset_peaks(self) -> None: ...
    def empty_cache(self) -> None: ...
    def forget(self) -> None: ...
    def close(self) -> None: ...

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
    def answers(self) -> list[str]: ...
    @property
    def settings(self) -> str: ...

@final
class EstimatePlan:
    @property
    def run(self) -> RunPlan: ...
    @property
    def engine(self) -> str | None: ...
    @property
    def machine(self) -> PhantomMachine: ...
    @property
    def steps(self) -> int | None: ...
    @property
    def json(self) -> bool: ...

@final
class LabelSet:
    def __new__(cls, labels: list[tuple[str, int, int]]) -> LabelSet: ...
    def place(self, addrs: list[int]) -> None: ...

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
class Simulation:
    def to_json(self) -> str: ...
    def _repr_html_(self) -> str: ...

@final
class Oom:
    def to_json(self) -> str: ...
    def _repr_html_(self) -> str: ...

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
    def estimate_with(
        self, others: list[Trace], *, ended: str, error: str, notes: list[str]
    ) -> Estimate: ...
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
    def summary(self) -> str: ...
    def summary_text(self) -> str: ...
    def header(self) -> str: ...

def phantom_image() -> bytes:
    """The bytes of the phantom GPU's library, to be loaded before torch is."""

def main(args: list[str], python: str) -> int | RunPlan | EstimatePlan: ...
def draw(chart: str, to: str) -> bytes: ...
def start(
    path: str | os.PathLike[str],
    *,
    replace: str,
    cpu: bool,
    cuda: int,
    stacks: bool,
    ops: bool,
    told: str,
    max_memory: int,
    header: str,
    own_folder: str,
) -> None: ...
def stop() -> tuple[int, int, str] | None: ...
def is_being_recorded(path: str | os.PathLike[str]) -> bool: ...
def is_recording() -> bool: ...
def attach_torch(folder: str) -> list[str] | None: ...
def attach_tracker(has_pools: bool) -> bool: ...
def update_header(header: str) -> None: ...
def strings_to_prove_with() -> tuple[str, str, str, str]: ...
def prove(
    minor_version: int,
    frames: list[tuple[int, int, int]],
    codes: list[tuple[int, int, int, int, int]],
    strings: tuple[int, int, int, int],
) -> str | None: ...
def use_slow_stacks() -> bool: ...
def attend() -> list[tuple[int, int]]: ...
def name_modules(root: int, named: list[tuple[int, str, str]]) -> None: ...
def forget_module(addr: int) -> None: ...
def define_label(category: str, name: str, shape: str, dtype: str) -> int: ...
def label(tensors: list[tuple[str, int, int, int]]) -> None: ...
def base(blocks: list[tuple[str, int, int, int, int, bool]]) -> None: ...
def prove_tensors(tensor: int, storage: int, data: int, bytes: int, empty: int) -> bool: ...
def base_of_host() -> int | None: ...
def step() -> int | None: ...
def ended_steps(first: int, wait_millis: int) -> str: ...
def peaks(wait_millis: int) -> list[tuple[str, int]]: ...
def mark(name: str) -> None: ...
def begin_phase(name: str) -> None: ...
def end_phase() -> None: ...
def note_optimizer(begins: bool) -> None: ...
