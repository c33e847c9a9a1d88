"""Layers and memory on one line of time.

While a model runs, `LayerWatch` marks where layers begin and end in floodmark's recording: each
such boundary begins or ends a phase, and ends a step. Afterwards `Timeline` reads both back. A
report by step has the exact level at every boundary and the exact peak between two of them; the
events in between come from the export. Knows nothing of how it is shown.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from typing import Any

from floodmark import _core, _recorder
from floodmark.compat._events import history_of

_PREFIX = "floodmark layer "
#: CUDA's allocator hands out multiples of this.
_ROUNDING = 512


@dataclass
class Visit:
    """One run of a layer: which boundaries it lies between, and what happened there."""

    layer: str
    entered: int
    left: int = -1
    began: float = 0.0
    ended: float = 0.0
    peak_allocated: int = 0
    peak_reserved: int = 0
    allocations: int = 0
    frees: int = 0
    ratios: list[float] = field(default_factory=list)


#: When it was, which visit it begins or ends, and whether it begins it.
Boundary = tuple[int, Visit, bool]


@dataclass
class Moment:
    """Something that happened, with the levels after it."""

    seconds: float
    kind: str
    size: int
    layer: str | None
    allocated: int
    reserved: int
    ratio: float


class LayerWatch:
    """Hooks on the layers of a model, for as long as they are watched."""

    def __init__(self, model: Any) -> None:
        self.visits: list[Visit] = []
        self.boundaries = 0
        self._lock = threading.Lock()
        self._inside = threading.local()
        named = [(name, module) for name, module in model.named_modules() if name]
        self._hooks: list[Any] = []
        for name, module in named or [(type(model).__name__, model)]:
            self._hooks.append(module.register_forward_pre_hook(self._before(name)))
            self._hooks.append(module.register_forward_hook(self._after, always_call=True))

    def _stack(self) -> list[Visit]:
        stack: list[Visit] | None = getattr(self._inside, "stack", None)
        if stack is None:
            stack = self._inside.stack = []
        return stack

    def _before(self, name: str) -> Any:
        def enter(*_: object) -> None:
            with self._lock:
                # The step first: what follows belongs to the layer.
                _core.step()
                visit = Visit(name, self.boundaries)
                self.boundaries += 1
                _core.begin_phase(f"{_PREFIX}{len(self.visits)}")
                self.visits.append(visit)
            self._stack().append(visit)

        return enter

    def _after(self, *_: object) -> None:
        stack = self._stack()
        if not stack:
            return
        visit = stack.pop()
        with self._lock:
            _core.end_phase()
            _core.step()
            visit.left = self.boundaries
            self.boundaries += 1

    def remove(self) -> None:
        """Take the hooks off."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()


class Timeline:
    """What a recording and the layers in it come to."""

    def __init__(self, recorder: _recorder.Recorder, watch: LayerWatch, device: str) -> None:
        trace = recorder.trace
        summary = trace.summary()
        self.losses = list(summary["losses"])
        self.moments: list[Moment] = []
        self.visits = [visit for visit in watch.visits if visit.left >= 0]
        found = {each["device"]: each for each in summary["devices"]}
        self.peak_allocated = int(found[device]["peak"]) if device in found else 0
        self.peak_reserved = self.peak_allocated
        if device not in found:
            return
        start = trace.at(0, device).by_phase()
        self._is_cached = start.reserved is not None
        self._allocated = start.allocated
        self._reserved = start.reserved or 0
        if found[device]["reserved_peak"] is not None:
            self.peak_reserved = int(found[device]["reserved_peak"])
        steps = trace.report(by="step", device=device, top=None)
        self._steps = {row["step"]: row for row in steps if row["step"] is not None}
        assert recorder.path is not None
        events, phases = history_of(recorder.path, device)
        began = int(summary["header"]["started_unix_micros"])
        self._merge(events, self._times(watch, phases), began)
        self._note("snapshot", float(summary["seconds"]), 0, [])
        for visit in self.visits:
            rows = [self._steps.get(at) for at in range(visit.entered + 1, visit.left + 1)]
            peaks = [int(row["peak"]) for row in rows if row is not None]
            visit.peak_allocated = max(peaks, default=visit.peak_allocated)
            if not self._is_cached:
                visit.peak_reserved = visit.peak_allocated

    def _times(self, watch: LayerWatch, phases: list[dict[str, Any]]) -> list[Boundary]:
        """When each boundary was, in order, with its visit and whether that begins."""
        found: list[Boundary] = []
        for phase in phases:
            if phase["name"].startswith(_PREFIX):
                with contextlib.suppress(IndexError):
                    visit = watch.visits[int(phase["name"][len(_PREFIX) :])]
                    found.append((int(phase["time_us"]), visit, phase["stage"] == "START"))
        return sorted(found, key=lambda each: each[0])

    def _merge(self, events: list[dict[str, Any]], boundaries: list[Boundary], began: int) -> None:
        self._note("snapshot", 0.0, 0, [])
        inside: list[Visit] = []
        sizes: dict[int, int] = {}
        waiting = iter(boundaries)
        following = next(waiting, None)
        for event in [*events, None]:
            while following is not None and (event is None or following[0] <= event["time_us"]):
                at, visit, begins = following
                self._cross((at - began) / 1e6, visit, begins, inside)
                following = next(waiting, None)
            if event is not None:
                self._happen(event, (event["time_us"] - began) / 1e6, inside, sizes)

    def _cross(self, seconds: float, visit: Visit, begins: bool, inside: list[Visit]) -> None:
        """A layer begins or ends: the level is known exactly."""
        row = self._steps.get(visit.entered if begins else visit.left)
        if row is not None:
            self._allocated = int(row["end"])
        if begins:
            visit.began = seconds
            inside.append(visit)
        self._note("layer_enter" if begins else "layer_exit", seconds, 0, inside, visit.layer)
        if not begins and visit in inside:
            visit.ended = seconds
            inside.remove(visit)

    def _happen(
        self, event: dict[str, Any], seconds: float, inside: list[Visit], sizes: dict[int, int]
    ) -> None:
        action, size, addr = event["action"], int(event.get("size", 0)), int(event.get("addr", 0))
        block = -(-size // _ROUNDING) * _ROUNDING if self._is_cached else size
        if action in ("segment_alloc", "segment_map"):
            self._reserved += size
        elif action in ("segment_free", "segment_unmap"):
            self._reserved -= size
        elif action == "alloc":
            sizes[addr] = block
            self._allocated += block
            for visit in inside:
                visit.allocations += 1
            self._note("alloc", seconds, size, inside)
        elif action == "free_requested":
            self._allocated = max(self._allocated - sizes.pop(addr, block), 0)
            for visit in inside:
                visit.frees += 1
            self._note("free", seconds, size, inside)

    def _note(
        self, kind: str, seconds: float, size: int, inside: list[Visit], layer: str | None = None
    ) -> None:
        reserved = self._reserved if self._is_cached else self._allocated
        ratio = max(reserved - self._allocated, 0) / reserved if reserved > 0 else 0.0
        if layer is None and inside:
            layer = inside[-1].layer
        for visit in inside:
            visit.peak_reserved = max(visit.peak_reserved, reserved)
            visit.ratios.append(ratio)
        self.moments.append(Moment(seconds, kind, size, layer, self._allocated, reserved, ratio))
