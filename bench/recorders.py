"""The recorders that are compared, each as a context manager around training steps.

floodmark, torch's own memory history, `torch.profiler`, and two methods that many tools use: hooks
on every layer that ask the allocator for its totals, and a dispatch mode that asks after every
operator (`torch.distributed._tools.memory_tracker`). On the CPU there is no allocator to ask, so
these two ask the system for the size of the process, which is cheaper.
"""

from __future__ import annotations

import resource
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

Recorder = Callable[[nn.Module], AbstractContextManager[Any]]

#: The events and bytes of the last recording of floodmark, by the name of the recorder.
last_summary: dict[str, dict[str, Any]] = {}


def untraced(_: nn.Module) -> AbstractContextManager[Any]:
    return nullcontext()


def floodmark(name: str, **options: Any) -> Recorder:
    @contextmanager
    def record(_: nn.Module) -> Iterator[None]:
        import floodmark

        with tempfile.TemporaryDirectory(prefix="floodmark-bench-") as folder:
            path = Path(folder) / "steps.flood"
            with floodmark.trace(path, **options) as trace:
                yield
            summary = trace.trace.summary()
            last_summary[name] = {
                "events": summary["events"],
                "steps": summary["steps"],
                "bytes": path.stat().st_size,
                "losses": summary["losses"],
            }

    return record


def history(context: str | None) -> Recorder:
    @contextmanager
    def record(_: nn.Module) -> Iterator[None]:
        torch.cuda.memory._record_memory_history(
            enabled="all", context=context, stacks="python", max_entries=200_000
        )
        try:
            yield
        finally:
            torch.cuda.memory._record_memory_history(enabled=None)

    return record


@contextmanager
def profiler(_: nn.Module) -> Iterator[None]:
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(
        activities=activities, profile_memory=True, with_stack=True, record_shapes=True
    ):
        yield


def _totals() -> tuple[int, int]:
    """Allocated and reserved bytes, or the nearest figures on the CPU."""
    if torch.cuda.is_available():
        return torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * resource.getpagesize()
    return resident, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextmanager
def layer_hooks(model: nn.Module) -> Iterator[None]:
    """Read the totals when a layer begins and when it ends; keep a bounded list."""
    events: deque[tuple[Any, ...]] = deque(maxlen=100_000)
    lock = threading.Lock()
    began = time.perf_counter()

    def note(kind: str, name: str) -> None:
        allocated, reserved = _totals()
        wasted = (reserved - allocated) / reserved if reserved else 0.0
        with lock:
            events.append((time.perf_counter() - began, kind, name, allocated, reserved, wasted))

    handles = []
    for name, module in model.named_modules():
        if next(module.children(), None) is not None:
            continue
        handles.append(
            module.register_forward_pre_hook(lambda *_, name=name: note("layer_enter", name))
        )
        handles.append(module.register_forward_hook(lambda *_, name=name: note("layer_exit", name)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class _AfterEveryOperator(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.totals: dict[int, tuple[str, int, int]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.totals[len(self.totals)] = (func.__name__, *_totals())
        return result


@contextmanager
def operator_mode(model: nn.Module) -> Iterator[None]:
    """torch's own `MemoryTracker` on CUDA; on the CPU, where it does not work, the same method."""
    if torch.cuda.is_available():
        from torch.distributed._tools.memory_tracker import MemoryTracker

        tracker = MemoryTracker()
        tracker.start_monitor(model)
        try:
            yield
        finally:
            tracker.stop()
    else:
        with _AfterEveryOperator():
            yield
