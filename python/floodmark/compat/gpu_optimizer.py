"""`gpu_optimizer.MemoryTracer`: memory of the layers of a model, as it runs.

    from floodmark.compat.gpu_optimizer import MemoryTracer

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
- `max_events` limits the events that are kept, the latest ones; statistics are of all of them.
- The time of a layer is the sum of its runs, not the stretch from its first to its last.
- The CPU too: `device="cpu"`, and by itself where there is no CUDA. It caches nothing, so what is
  reserved is what is allocated, and nothing is fragmented.

Levels are exact where a layer begins or ends, and so are peaks. Between two boundaries the level
of an `alloc` or `free` event on CUDA counts blocks as multiples of 512 bytes; where the allocator
hands out a larger block whole, it is that much too low until the next boundary. When layers run on
several threads at once, what the others do in the meantime counts for a layer too.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Optional

from floodmark import _recorder
from floodmark._core import __version__
from floodmark.compat._layers import LayerWatch, Timeline, Visit

__all__ = ["LayerMemoryStats", "MemoryEvent", "MemoryTracer"]

_MB = 1024**2
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
        self.device = str(device)
        self.enable_fragmentation = enable_fragmentation_tracking
        self._lock = threading.RLock()
        self._is_tracing = False
        self._recorded: tuple[_recorder.Recorder, LayerWatch, str] | None = None
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
        device = self._present_device()
        recorder = _recorder.trace(devices=[device], stacks=False).start()
        # A recording that somebody else began gets no marks of ours.
        watch = None if recorder.failure else LayerWatch(model)
        try:
            yield self
        finally:
            if watch is not None:
                watch.remove()
            recorder.stop()
            with self._lock:
                if watch is not None:
                    self._recorded = (recorder, watch, device)
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
            self._settle()
            return self._stats

    def get_peak_memory_per_layer(self) -> dict[str, int]:
        """The most that was allocated while each layer ran, in bytes."""
        return {name: stats.peak_allocated for name, stats in self.get_layer_stats().items()}

    def get_fragmentation_stats(self) -> dict[str, float]:
        """The average part of what was reserved that was not allocated, by layer, 0 to 1."""
        return {name: stats.avg_fragmentation for name, stats in self.get_layer_stats().items()}

    def export_flame_graph(self, output_path: str | os.PathLike[str]) -> None:
        """Write what each layer allocated as a flame graph for https://www.speedscope.app/."""
        frames: dict[str, int] = {}
        samples: list[list[int]] = []
        weights: list[int] = []
        for event in self.events:
            if event.event_type == "alloc":
                stack = _around(event.layer_name)
                samples.append([frames.setdefault(name, len(frames)) for name in stack])
                weights.append(event.size_bytes)
        profile = {
            "type": "sampled",
            "name": "Allocated by layer",
            "unit": "bytes",
            "startValue": 0,
            "endValue": sum(weights),
            "samples": samples,
            "weights": weights,
        }
        written = {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "shared": {"frames": [{"name": name} for name in frames]},
            "profiles": [profile],
            "name": "floodmark",
            "activeProfileIndex": 0,
            "exporter": f"floodmark {__version__}",
        }
        print(f"wrote `{_write(output_path, written)}`; drop it on https://www.speedscope.app/")

    def export_timeline(self, output_path: str | os.PathLike[str]) -> None:
        """Write events, statistics of layers and a summary as JSON."""
        with self._lock:
            events, stats = self.events, self.get_layer_stats()
            written = {
                "events": [asdict(event) for event in events],
                "layer_stats": {name: asdict(each) for name, each in stats.items()},
                "summary": {
                    "total_events": len(events),
                    "total_layers": len(stats),
                    "peak_allocated_mb": self._peaks[0] / _MB,
                    "peak_reserved_mb": self._peaks[1] / _MB,
                    "avg_fragmentation": self._average_fragmentation(),
                    "losses": self._losses,
                },
            }
        print(f"wrote `{_write(output_path, written)}`")

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
            print(f"Peak: {allocated / _MB:.2f} MB allocated, {reserved / _MB:.2f} MB reserved")
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

        if self.device.startswith("cuda") and torch.cuda.is_available():
            return self.device if ":" in self.device else f"cuda:{torch.cuda.current_device()}"
        return "cpu"

    def _average_fragmentation(self) -> float:
        ratios = [event.fragmentation_ratio for event in self._events]
        return sum(ratios) / len(ratios) if ratios else 0.0

    def _forget(self) -> None:
        self._drop_recording()
        self._events.clear()
        self._stats = {}
        self._peaks = (0, 0)
        self._losses = []

    def _drop_recording(self) -> None:
        recorded, self._recorded = self._recorded, None
        if recorded is not None and recorded[0].path is not None:
            with suppress(OSError):
                recorded[0].path.unlink()

    def _settle(self) -> None:
        """Work out what was recorded, when somebody first asks: tracing itself stays cheap."""
        if self._recorded is None:
            return
        timeline = Timeline(*self._recorded)
        self._drop_recording()
        self._peaks = (timeline.peak_allocated, timeline.peak_reserved)
        self._losses = timeline.losses
        kept = self.enable_fragmentation
        self._events.extend(
            MemoryEvent(
                each.seconds,
                each.kind,
                each.size,
                each.layer,
                each.allocated,
                each.reserved,
                each.ratio if kept else 0.0,
            )
            for each in timeline.moments
        )
        runs: dict[str, list[Visit]] = {}
        for visit in timeline.visits:
            runs.setdefault(visit.layer, []).append(visit)
        self._stats = {name: _stats_of(name, visits, kept) for name, visits in runs.items()}


def _stats_of(name: str, visits: list[Visit], with_fragmentation: bool) -> LayerMemoryStats:
    ratios = [ratio for visit in visits for ratio in visit.ratios] if with_fragmentation else []
    return LayerMemoryStats(
        layer_name=name,
        peak_allocated=max(visit.peak_allocated for visit in visits),
        peak_reserved=max(visit.peak_reserved for visit in visits),
        total_allocations=sum(visit.allocations for visit in visits),
        total_deallocations=sum(visit.frees for visit in visits),
        avg_fragmentation=sum(ratios) / len(ratios) if ratios else 0.0,
        duration_ms=sum(visit.ended - visit.began for visit in visits) * 1000,
    )


def _around(layer: str | None) -> list[str]:
    """A layer and those around it, outermost first."""
    if layer is None:
        return ["(outside)"]
    parts = layer.split(".")
    return [".".join(parts[: at + 1]) for at in range(len(parts))]


def _write(path: str | os.PathLike[str], content: dict[str, Any]) -> Path:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(content))
    return target
