"""`gpu_optimizer.MemoryTracer`: memory of the layers of a model, as it runs.

    from floodmark_compat.gpu_optimizer import MemoryTracer

    tracer = MemoryTracer(max_events=10000)
    with tracer.trace(model):
        output = model(input_tensor)
    tracer.print_summary()
    tracer.export_flame_graph("memory_profile.json")
    tracer.export_timeline("memory_timeline.json")

What differs, and why it is better:

- Events are the real allocations and frees. The original has none of them: it counts each beginning
  of a layer as an allocation, and each end as a free.
- The peak of a layer is the highest level inside it, not the higher of those at its two ends.
- Layers within layers are layers too, and the flame graph shows them inside each other, by what
  each allocated.
- torch's memory history is left alone, no peak counter of torch is reset, and nothing synchronises.
- `max_events` limits the events that are kept, the latest ones; statistics are of all of them. What
  is recorded stays in 32 MiB of memory. A trace with more goes to a temporary file until it has
  `max_events` events; then it stops, and the summary says so.
- The time of a layer is the sum of its runs, not the stretch from its first to its last.
- What the backward pass allocates belongs to the layer whose forward pass caused it.
- The size of an event is the change of the level: on CUDA, the request as the allocator rounds it.
- The CPU too: `device="cpu"`. It caches nothing, so what is reserved is what is allocated, and
  nothing is fragmented. An unknown device is an error that names the known ones; without
  CUDA, that is also the default, `"cuda:0"`.

Every level is torch's own total. When layers run on several threads at once, a layer counts the
allocations of its own thread; how high the device stood is everybody's.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from floodmark import _core
from floodmark.recording.recorder import Recorder

__all__ = ["LayerMemoryStats", "MemoryEvent", "MemoryTracer"]

_MB = 1024**2
#: In the recording a layer is a phase of this name.
_LAYER = "floodmark layer "
_SUMMARY_ROWS = 10


@dataclass
class MemoryEvent:
    """One thing that happened, and the levels after it."""

    timestamp: float  # seconds since the trace began
    event_type: str  # `alloc`, `free`, `snapshot`, `layer_enter` or `layer_exit`
    size_bytes: int
    layer_name: Optional[str]  # noqa: UP045 (as documented)
    allocated_bytes: int
    reserved_bytes: int
    fragmentation_ratio: float


@dataclass
class LayerMemoryStats:
    """What happened in all runs of a layer."""

    layer_name: str
    peak_allocated: int
    peak_reserved: int
    total_allocations: int
    total_deallocations: int
    avg_fragmentation: float
    duration_ms: float


class MemoryTracer:
    """Traces a model's layers. One trace at a time; the answers may be asked from any thread."""

    def __init__(
        self,
        max_events: int = 100000,
        device: str = "cuda:0",
        enable_fragmentation_tracking: bool = True,
    ) -> None:
        self.max_events = max_events
        self.device = _checked(device)
        self.enable_fragmentation = enable_fragmentation_tracking
        self._lock = threading.RLock()
        self._is_tracing = False
        self._recorded: Recorder | None = None
        self._read: _core.Trace | None = None
        self._present = self.device
        self._events: deque[MemoryEvent] = deque(maxlen=max_events)
        self._stats: dict[str, LayerMemoryStats] = {}
        self._peaks = (0, 0)
        self._losses: list[str] = []

    @contextmanager
    def trace(self, model: Any) -> Iterator[MemoryTracer]:
        """Trace what happens inside; forgets what was traced before."""
        with self._lock:
            if self._is_tracing:
                raise RuntimeError("this tracer traces already: one trace at a time")
            self._is_tracing = True
            self._forget()
        recorder: Recorder | None = None
        hooks: list[Any] = []
        try:
            self._present = self._present_device()
            layers = _layers(model)
            recorder = Recorder(devices=[self._present], max_events=self.max_events).start()
            if not recorder.failure:
                _mark_layers(layers, recorder, hooks)
                with self._lock:
                    self._recorded = recorder
            yield self
        finally:
            for hook in hooks:
                hook.remove()
            if recorder is not None:
                recorder.stop()
            with self._lock:
                self._is_tracing = False

    @property
    def events(self) -> deque[MemoryEvent]:
        """The latest events, at most `max_events`."""
        with self._lock:
            self._settle()
            return self._events

    def get_layer_stats(self) -> dict[str, LayerMemoryStats]:
        """Statistics by the name of the layer."""
        with self._lock:
            self._settle(with_events=False)
            return self._stats

    def get_peak_memory_per_layer(self) -> dict[str, int]:
        """The peak of allocated bytes while each layer ran, in bytes."""
        return {name: stats.peak_allocated for name, stats in self.get_layer_stats().items()}

    def get_fragmentation_stats(self) -> dict[str, float]:
        """The average part of what was reserved that was not allocated, by layer, 0 to 1."""
        return {name: stats.avg_fragmentation for name, stats in self.get_layer_stats().items()}

    def export_flame_graph(self, output_path: str | os.PathLike[str]) -> None:
        """Write what each layer allocated as a flame graph for https://www.speedscope.app/."""
        written = self._export(output_path, "speedscope")
        if written is not None:
            print(f"wrote `{written}`; drop it on https://www.speedscope.app/")

    def export_timeline(self, output_path: str | os.PathLike[str]) -> None:
        """Write events, statistics of layers and a summary as JSON."""
        written = self._export(output_path, "timeline")
        if written is not None:
            print(f"wrote `{written}`")

    def _export(self, path: str | os.PathLike[str], to: str) -> Path | None:
        with self._lock:
            self._settle()
            if self._read is None:
                print("nothing was traced")
                return None
            target = Path(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            self._written(to, target)
            return target

    def _written(self, to: str, path: Path | None = None) -> bytes:
        assert self._read is not None
        return (
            self._read.export(
                path,
                to=to,
                device=self._present,
                layers=_LAYER,
                max_events=self.max_events,
                fragmentation=self.enable_fragmentation,
            )
            or b""
        )

    def print_summary(self) -> None:
        """Print the peaks, then the layers with the highest ones."""
        with self._lock:
            events, stats = self.events, self.get_layer_stats()
            allocated, reserved = self._peaks
            if not events:
                print("nothing was traced")
                return
            for loss in self._losses:
                print(f"not complete: {loss}")
            peaks = f"{allocated / _MB:.2f} MB allocated, {reserved / _MB:.2f} MB reserved"
            print(f"Peak on {self._present}: {peaks}")
            print(f"{len(stats)} layers, {len(events)} events kept")
            print(f"{'Peak MB':>10}  {'Allocs':>7}  {'Frees':>7}  {'Unused':>6}  {'ms':>9}  Layer")
            highest = sorted(stats.values(), key=lambda each: each.peak_allocated, reverse=True)
            for each in highest[:_SUMMARY_ROWS]:
                counts = f"{each.total_allocations:>7}  {each.total_deallocations:>7}"
                unused = f"{each.avg_fragmentation:>6.1%}  {each.duration_ms:>9.2f}"
                peak = f"{each.peak_allocated / _MB:>10.2f}"
                print(f"{peak}  {counts}  {unused}  {each.layer_name}")

    def _present_device(self) -> str:
        import torch

        if self.device == "cpu":
            return "cpu"
        return self.device if ":" in self.device else f"cuda:{torch.cuda.current_device()}"

    def _forget(self) -> None:
        self._drop_recording()
        self._read = None
        self._events.clear()
        self._stats = {}
        self._peaks = (0, 0)
        self._losses = []

    def _drop_recording(self) -> None:
        self._recorded = None

    def _settle(self, *, with_events: bool = True) -> None:
        """Read what was recorded when it is asked for: tracing itself stays cheap.

        While the trace runs, every question is answered with what is recorded until then. Events
        are as many as the answer has; statistics without them cost what is new.
        """
        if self._recorded is None:
            return
        trace = self._recorded.trace
        with_events |= not self._is_tracing
        if not self._is_tracing:
            self._drop_recording()
        found = trace.summary()
        self._losses = list(found["losses"])
        if self._present not in [each["device"] for each in found["devices"]]:
            return
        self._read = trace._core
        written = self._read.layers(
            device=self._present,
            layers=_LAYER,
            max_events=self.max_events if with_events else 0,
            fragmentation=self.enable_fragmentation,
        )
        document = json.loads(written)
        if with_events:
            self._events.clear()
            self._events.extend(MemoryEvent(**event) for event in document["events"])
        self._stats = {
            name: LayerMemoryStats(**stats) for name, stats in document["layer_stats"].items()
        }
        summary = document["summary"]
        self._peaks = (summary["peak_allocated_bytes"], summary["peak_reserved_bytes"])


def _checked(device: Any) -> str:
    """The name of a device that can be measured."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    name = str(device) if isinstance(device, (str, torch.device)) else ""
    found = re.fullmatch(r"cpu|cuda(?::(\d+))?", name)
    if found is None or (name != "cpu" and int(found[1] or 0) >= count):
        names = ", ".join(["`cpu`", *(f"`cuda:{index}`" for index in range(count))])
        raise ValueError(f"no such device: {device!r}; this machine has {names}")
    return name


def _layers(model: Any) -> list[tuple[str, Any]]:
    """The modules of a model by their names; a model without any is one itself."""
    if not hasattr(model, "named_modules"):
        raise TypeError(f"a model is a `torch.nn.Module`, not {type(model).__name__}")
    named = [(name, module) for name, module in model.named_modules() if name]
    return named or [(type(model).__name__, model)]


def _mark_layers(layers: list[tuple[str, Any]], recorder: Recorder, hooks: list[Any]) -> None:
    """Add hooks that tell this recording alone where layers begin and end."""
    for name, module in layers:
        hooks.append(module.register_forward_pre_hook(_begin(name, recorder)))
        hooks.append(module.register_forward_hook(_end(recorder), always_call=True))


def _begin(name: str, recorder: Recorder) -> Any:
    def begin(*_: object) -> None:
        recorder.begin_phase(f"{_LAYER}{name}")

    return begin


def _end(recorder: Recorder) -> Any:
    def end(*_: object) -> None:
        recorder.end_phase()

    return end
