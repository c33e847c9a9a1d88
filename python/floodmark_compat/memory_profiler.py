"""`memory_profiler` (pytorch-memory-tracing): what a training step needs, from fake tensors.

    from floodmark_compat.memory_profiler import MemoryTracer

    estimator = MemoryTracer(device="cuda")
    with estimator:
        model = Model().to("cuda")
        batch = estimator.create_fake_tensor(4, 128, dtype=torch.long)
        with estimator.track_phase("forward"):
            loss = model(batch).sum()
        with estimator.track_phase("backward"):
            loss.backward()
    estimator.print_memory_stats(detailed=True)

What differs, and why it is better:

- It is `floodmark.estimate(engine="fake")`: sizes are rounded as torch's allocator does, kernels'
  own memory is counted, and the figures are those of `torch.cuda.memory_allocated()` on a GPU. No
  GPU's memory is a limit here. A GPU, its driver or a CUDA build of torch is not needed.
- A storage is counted once, however many views it has, and until it dies.
- Modules are known without hooks, in the backward pass too. Hooks add what a forward pass kept.
- What the block did is an ordinary recording: `trace` answers every question of floodmark's, and
  `peak_snapshot` is the list of what was there at the peak.
- Values that a program reads are assumed, and each place is listed (`print(estimator.estimate)`).
- With `device="cpu"` the figures are those of the host, whose allocator rounds nothing. With
  `device="meta"` tensors on `meta` are the GPU's: they have its device, and are counted as there.
- Collectives of a program without a process group do nothing, as with the original, and
  `new_group` gives a stand-in. With a group they allocate what they would on a GPU.
- Records also go to the handlers of the root logger. A program that sets up both sees them twice.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any

from floodmark import _core, torch_private, torch_private_fakes
from floodmark.plugins import Plugin
from floodmark.reports.trace import Estimate, Report, Trace
from floodmark_compat import _profiler_tables as tables
from floodmark_compat._profiler_blocks import Estimating
from floodmark_compat._profiler_dispatch import MemoryDispatchMode
from floodmark_compat._profiler_log import configure_logging, get_logger, level_number
from floodmark_compat._profiler_plugins import (
    DistributedPlugin,
    P2PCommunicationPlugin,
    TracerPlugin,
    TransformerEnginePlugin,
)

if TYPE_CHECKING:
    from floodmark.reports import answer_types

__all__ = [
    "DistributedPlugin",
    "MemoryDispatchMode",
    "MemoryTracer",
    "P2PCommunicationPlugin",
    "TracerPlugin",
    "TransformerEnginePlugin",
    "configure_logging",
    "get_logger",
]

_numbers = itertools.count(1)


class MemoryTracer:
    """Estimates the memory of what runs inside it; all tensors made there are fake.

    `device` is the one that is asked about: `"cuda"`, `"cuda:1"`, `"cpu"`, or `"meta"`: then
    tensors on `meta` are counted as those of a GPU, and lie there. `log_level` is for this tracer
    alone. Beyond the original's: `plugins` are classes of the program's own, `without`
    names those to leave out, `gpu` is the GPU that is simulated (its size is no limit), `world` and
    `rank` the place in a distributed program, `path` where the recording is kept.
    """

    def __init__(
        self,
        device: Any = "cuda",
        log_level: int | str | None = None,
        *,
        plugins: Iterable[type[Plugin]] = (),
        without: Iterable[str] = (),
        gpu: str | os.PathLike[str] = "h200",
        world: int | None = None,
        rank: int = 0,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        found = re.fullmatch(r"cpu|meta|cuda(?::(\d+))?", str(device))
        if found is None:
            raise ValueError(
                f"no such device: {str(device)!r}; write `cpu`, `cuda`, `cuda:0` or `meta`"
            )
        index = int(found[1] or 0)
        self.device = device
        self._device = "cpu" if found[0] == "cpu" else f"cuda:{index}"
        self._gpus = max(index + 1, min(world or 1, 8))
        self._is_meta = found[0] == "meta"
        self._plugins = tuple(map(_checked_plugin, plugins))
        self._options = {
            "gpu": gpu,
            "gpus": self._gpus,
            "world": world,
            "rank": rank,
            "without": tuple(without),
            "path": path,
        }
        # Wrong options are said here, not at the block.
        self._make()
        self._run: Estimating | None = None
        self._is_inside = False
        self._phases: dict[str, tables.Phase] = {}
        self._log = get_logger(f"tracer{next(_numbers)}" if log_level is not None else "tracer")
        if log_level is not None:
            self._log.setLevel(level_number(log_level))
        #: What is known of devices and modules; hooks are registered here.
        self.memory_dispatch_mode = MemoryDispatchMode(self)

    def __enter__(self) -> MemoryTracer:
        if self._is_inside:
            raise _core.FloodmarkError("this tracer's block has begun already: one at a time")
        self._run = None
        self._phases.clear()
        self.memory_dispatch_mode._begin()
        run = self._make()
        run.__enter__()
        self._run = run
        self._is_inside = True
        if self._is_meta:
            self._meta = _meta_is(self._device)
            self._meta.__enter__()
        self._log.debug("tracing %s with fake tensors", self._device)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_inside = False
        if self._is_meta:
            self._meta.__exit__(kind, error, traceback)
        self.memory_dispatch_mode._end()
        if self._run is not None:
            self._run.__exit__(kind, error, traceback)
            now, peak = self._run.level(self._device)[:2]
            self._log.debug("traced %s: %s bytes at its peak, %s now", self._device, peak, now)

    def create_fake_tensor(
        self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
    ) -> Any:
        """A tensor of a shape, without contents; by default on the tracer's device."""
        if not self._is_inside:
            raise _core.FloodmarkError(
                "a fake tensor would be a real one here: call create_fake_tensor() in the block"
            )
        import torch

        where = self._device if device is None else device
        return torch.empty(*size, dtype=dtype, device=where, requires_grad=requires_grad)

    @contextmanager
    def track_phase(self, name: str) -> Iterator[None]:
        """Name what happens inside. Phases may be nested: what is made is the innermost one's."""
        phase = self._phases.setdefault(str(name), tables.Phase())
        phase.times += 1
        phase.began = self._now()
        self._log.debug("phase %s begins with %s bytes", name, phase.began)
        try:
            with nullcontext() if self._run is None else self._run.phase(str(name)):
                yield
        finally:
            phase.ended = self._now()
            self._log.debug("phase %s ends with %s bytes", name, phase.ended)

    def get_current_memory_allocated(self) -> tuple[int, ...]:
        """Bytes that are allocated: of the tracer's device, then of its fellows.

        After the block, what was there when it ended.
        """
        return tuple(now for now, _ in self._of_its_kind())

    def get_max_memory_allocated(self) -> tuple[int, ...]:
        """The most bytes that were allocated: of the tracer's device, then of its fellows."""
        return tuple(peak for _, peak in self._of_its_kind())

    def get_peak_memory_per_phase(self) -> dict[str, int]:
        """The most bytes that were allocated on the device while each tracked phase ran."""
        trace, _ = self._trace_or_reason()
        if trace is None or not self._phases:
            return {}
        # Every phase is a layer: its name follows the empty text.
        written = trace._core.export(to="timeline", device=self._device, layers="", max_events=0)
        found = json.loads(written or b"")["layer_stats"]
        return {name: int(found[name]["peak_allocated"]) for name in self._phases if name in found}

    @property
    def trace(self) -> Trace:
        """What the block did, as a recording. Inside the block: what is written of it so far."""
        if self._run is None:
            raise _core.FloodmarkError("nothing was traced: the block has not begun")
        return self._run.trace

    @property
    def estimate(self) -> Estimate:
        """What it needs of the GPU that is simulated, and what the answer rests on."""
        return self.trace.estimate()

    def peak_snapshot(self) -> Report[answer_types.TensorRow]:
        """What was there at the peak: each allocation with name, shape, kind and module."""
        return self.trace.peak(self._device).by_tensor(top=None)

    def tensor_lifetimes(self) -> list[answer_types.TensorLifetime]:
        """All tensors, by module: when each was allocated, saved for backward, last used, freed.

        Times are in seconds since the block began. `saved_seconds` is None for what autograd did
        not save, `freed_seconds` for what outlived the block.
        """
        rows = self.trace.lifetimes(self._device)
        return sorted(rows, key=lambda row: (row["module"] or "", row["allocated_seconds"]))

    def print_memory_stats(self, detailed: bool = False) -> None:
        """Log the peak and what made it; with `detailed` all modules, and operators."""
        if self._run is None:
            self._log.warning("nothing was traced: the block has not begun")
            return
        for line in self._lines(detailed):
            self._log.info("%s", line)

    def _lines(self, detailed: bool) -> Iterator[str]:
        levels = self._levels()
        used = {name: level for name, level in levels.items() if level[1] or name == self._device}
        yield from tables.devices(used)
        trace, reason = self._trace_or_reason()
        peaks = self.get_peak_memory_per_phase()
        yield from tables.phases(trace, self._device, self._phases, peaks)
        if trace is None:
            self._log.warning("no modules, operators and tensors are known: %s", reason)
        else:
            # What a recording that runs has not written yet is not lost.
            for loss in [] if self._is_inside else trace.summary()["losses"]:
                self._log.warning("not complete: %s", loss)
            yield from tables.modules(trace, self._device, is_whole=detailed)
            if detailed:
                yield from tables.operators(trace, self._device)
            yield from tables.tensors(trace, self._device)
        forwards = self.memory_dispatch_mode._forwards
        if detailed and forwards:
            yield from tables.forwards(forwards)

    def _trace_or_reason(self) -> tuple[Trace | None, str]:
        """A trace that has the device, or why there is none."""
        try:
            trace = self.trace
        except (_core.FloodmarkError, OSError) as error:
            return None, str(error)
        seen = [each["device"] for each in trace.summary()["devices"]]
        if self._device not in seen:
            return None, f"nothing was allocated on {self._device}"
        return trace, ""

    def _make(self) -> Estimating:
        return Estimating(self._plugins, **self._options)

    def _address_of(self, tensor: Any) -> int:
        """Where the storage of a tensor of the block would be."""
        if self._run is None:
            return 0
        operators = self._run.engine_of_block().operators
        return int(operators.address(torch_private.storage_id(tensor.untyped_storage())))

    def _fakes(self, objects: list[Any]) -> Iterator[Any]:
        """Those of some objects that are tensors of the block, with memory."""
        fake = torch_private_fakes.fake_tensor_class()
        mode = None if self._run is None else self._run.engine_of_block().fake
        for each in objects:
            # By its type: to ask an object for its class may run code of its own.
            is_fake = issubclass(type(each), fake)
            if is_fake and each.fake_mode is mode and self._address_of(each):
                yield each

    def _now(self) -> int:
        return 0 if self._run is None else self._run.level(self._device)[0]

    def _of_its_kind(self) -> list[tuple[int, int]]:
        kind = self._device[:4]
        levels = self._levels()
        own = levels.pop(self._device)
        return [own, *(level for device, level in levels.items() if device[:4] == kind)]

    def _levels(self) -> dict[str, tuple[int, int]]:
        """Bytes now and at the peak, by device; the tracer's first."""
        names = [self._device, *(f"cuda:{index}" for index in range(self._gpus)), "cpu"]
        if self._run is None:
            return dict.fromkeys(names, (0, 0))
        levels = {name: self._run.level(name)[:2] for name in names}
        if self._run.is_inner:
            # The engine is another block's, and so is its peak.
            peaks = self._run.peaks()
            return {name: (now, peaks.get(name, now)) for name, (now, _) in levels.items()}
        if not self._is_inside:
            # A program may have reset torch's peaks; the recording has not.
            for device, peak in self._run.peaks().items():
                now, least = levels.get(device, (0, 0))
                levels[device] = (now, max(least, peak))
        return levels


def _checked_plugin(plugin: Any) -> type[Plugin]:
    if isinstance(plugin, type) and issubclass(plugin, Plugin):
        return plugin
    raise TypeError(f"a plugin is a class, such as a `TracerPlugin` of your own, not {plugin!r}")


def _meta_is(device: str) -> Any:
    """A mode that creates tensors on the device instead of on `meta`."""
    import torch
    from torch.overrides import TorchFunctionMode

    tree_map = torch_private.trees().tree_map

    def there(value: Any) -> Any:
        if isinstance(value, torch.device):
            return torch.device(device) if value.type == "meta" else value
        return device if isinstance(value, str) and value == "meta" else value

    class MetaIsDevice(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            args, kwargs = tree_map(there, (args, kwargs or {}))
            return func(*args, **kwargs)

    return MetaIsDevice()
