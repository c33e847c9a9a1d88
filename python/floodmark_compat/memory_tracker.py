"""`torch.distributed._tools.memory_tracker`: memory after every operator.

    from floodmark_compat.memory_tracker import MemoryTracker

    mem_tracker = MemoryTracker()
    mem_tracker.start_monitor(net)
    net(input).sum().backward()
    mem_tracker.stop()
    mem_tracker.summary()
    mem_tracker.show_traces()

What differs, and why it is better:

- Operators of the backward pass are named after the module whose forward made them
  (`layer.backward.mm.default_3`), by autograd's own numbers. The original gives them the module
  that ran forward last.
- After a module an operator belongs to the module around it again.
- The numbers are of floodmark's recording, and are read when they are asked for, also while the
  tracker runs: no counter is read after every operator. On CUDA they are torch's own totals. The
  CPU too: it caches nothing, so active and reserved are what is allocated.
- `show_traces` makes figures of matplotlib where that is installed, and writes files elsewhere. It
  raises when nothing was tracked, before it touches a file.
- `load` runs nothing that a file says. Files go both ways between this and the original.
- `summary` also works after `load`, where the original prints nothing, and lists the first operator
  too: files have what was allocated before it, which the original does not read.
- `MemoryProfileDispatchMode(tracker)` records without `start_monitor` too, and so does
  `_record_memory_stats`: on CUDA where there is one, otherwise on the CPU.
- Modules get no attribute, and hooks go away also when a forward pass or the start raised.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import torch

from floodmark import _core, torch_private
from floodmark.recording.recorder import trace
from floodmark_compat import _stats_file, _tracker_figures
from floodmark_compat._operator_modules import OperatorModules

__all__ = ["MemoryProfileDispatchMode", "MemoryTracker"]

BYTES_PER_MB = 1024 * 1024.0

#: The number of an operator call, its name, and the megabytes after it.
Series = dict[int, tuple[str, float]]

#: Modules of this name take no hooks; the original leaves them out too.
_WITHOUT_HOOKS = ".fused_proxy_grouped_embedding_bag"


class MemoryProfileDispatchMode(torch_private.dispatch_mode_class()):  # type: ignore[misc]
    """Tells a tracker of every operator that ran. `start_monitor` enters it, `stop` leaves it.

    A program that enters it itself tracks its operators without modules.
    """

    def __init__(self, memory_tracker: MemoryTracker) -> None:
        super().__init__()
        self.memory_tracker = memory_tracker
        self._began_run = False

    def __enter__(self) -> MemoryProfileDispatchMode:
        self._began_run = self.memory_tracker._begin_run(None)
        entered: MemoryProfileDispatchMode = super().__enter__()
        return entered

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        if self._began_run:
            self.memory_tracker._end_run()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is not torch.ops.aten.detach.default:
            self.memory_tracker._after_operator(func.__name__)
        return result


class MemoryTracker:
    """Memory after every operator: allocated, active and reserved, in MB.

    `memories_allocated`, `memories_active` and `memories_reserved` map the number of an operator
    call to its name and the megabytes after it. `markers` has the numbers at which the forward pass
    of the root began (`fw_start`) and ended (`fw_bw_boundary`). `profile_mode` is the mode that
    runs, and None outside of `start_monitor` and `stop`.
    """

    def __init__(self) -> None:
        self._series: list[Series] = [{}, {}, {}]
        #: The number that the next operator gets; a program may set it.
        self._op_index = 0
        #: Megabytes allocated before the first operator, where that is known.
        self._start: float | None = None
        self.profile_mode: MemoryProfileDispatchMode | None = None
        self._hooks: list[Any] = []
        self._operator_names: dict[str, int] = defaultdict(int)
        self._markers: dict[str, int] = {}
        #: What the program says that the next operators are named after.
        self._given_name: str | None = None
        self._num_alloc_retries = 0
        self._device_module = torch.cuda if torch.cuda.is_available() else torch.cpu
        self._run: _Run | None = None
        self._lock = threading.Lock()

    @property
    def memories_allocated(self) -> Series:
        """Megabytes allocated after each operator, also while the tracker runs.

        A program may clear or replace it; operators that run later are added to what is there.
        """
        return self._settled()[0]

    @memories_allocated.setter
    def memories_allocated(self, series: Series) -> None:
        self._settled()[0] = series

    @property
    def memories_active(self) -> Series:
        """The same of what is allocated, or freed but still used by a stream."""
        return self._settled()[1]

    @memories_active.setter
    def memories_active(self, series: Series) -> None:
        self._settled()[1] = series

    @property
    def memories_reserved(self) -> Series:
        """The same of what the caching allocator has reserved."""
        return self._settled()[2]

    @memories_reserved.setter
    def memories_reserved(self, series: Series) -> None:
        self._settled()[2] = series

    @property
    def markers(self) -> dict[str, int]:
        """Where the forward pass began and ended, as numbers of operator calls."""
        return self._markers

    @property
    def _cur_module_name(self) -> str:
        """What the next operator of this thread is named after."""
        if self._given_name is not None:
            return self._given_name
        return "" if self._run is None else self._run.modules.now()

    @_cur_module_name.setter
    def _cur_module_name(self, name: str) -> None:
        self._given_name = name

    def start_monitor(self, root_module: Any) -> None:
        """Begin: operators of the whole thread, and of the backward passes that it starts."""
        if self._run is not None:
            raise _core.FloodmarkError("the tracker runs already: call stop() first")
        self._clear_state()
        self._begin_run(root_module)
        try:
            for name, module in root_module.named_modules():
                if _WITHOUT_HOOKS not in name:
                    self._hook(name, module)
            self.profile_mode = MemoryProfileDispatchMode(self)
            self.profile_mode.__enter__()
        except BaseException:
            self.profile_mode = None
            self._end_run()
            self._clear_state()
            raise

    def stop(self) -> None:
        """End, and take the hooks off."""
        if self._run is None or self.profile_mode is None:
            raise _core.FloodmarkError("the tracker does not run: call start_monitor() first")
        self.profile_mode.__exit__(None, None, None)
        self.profile_mode = None
        self._end_run()

    def summary(self, top: int = 20) -> None:
        """Print the operators after which most more was allocated than before."""
        grew: dict[str, float] = {}
        levels = list(self.memories_allocated.values())
        if self._start is not None:
            levels.insert(0, ("", self._start))
        for (_, before), (name, after) in pairwise(levels):
            grew[name] = after - before
        print("------------------------------------------------")
        print(f"The number of alloc retries are: {self._num_alloc_retries}")
        print(f"Top {top} ops that generates memory are:")
        for name, change in sorted(grew.items(), key=lambda item: item[1], reverse=True)[:top]:
            print(f"{name}: {change}MB")
        print("------------------------------------------------")

    def show_traces(self, path: str | os.PathLike[str] = "") -> None:
        """Draw four pictures, all together and then each.

        With `path`, of a file of `save_stats`. Where matplotlib is installed they are figures, for
        `plt.show()`. Elsewhere they are files: beside `path`, otherwise in this folder.
        """
        if path != "":
            self.load(path)
        if not self.memories_allocated:
            raise _core.FloodmarkError(
                "nothing was tracked, so there is nothing to draw: call start_monitor(), run the "
                "model and call stop() first"
            )
        series = {
            "allocated_memory": self.memories_allocated,
            "active_memory": self.memories_active,
            "reserved_memory": self.memories_reserved,
        }
        beside = Path(path or "memory_tracker").with_suffix("")
        _tracker_figures.show(series, self._markers, beside)

    def save_stats(self, path: str | os.PathLike[str]) -> None:
        """Write the numbers to a file, for this `load` and the original's."""
        stats = {
            "memories_allocated": self.memories_allocated,
            "memories_active": self.memories_active,
            "memories_reserved": self.memories_reserved,
            "markers": self._markers,
            "num_alloc_retries": self._num_alloc_retries,
            "allocated_at_start": self._start,
        }
        _stats_file.write(path, stats)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Read a file of `save_stats`, also one that the original wrote, without running it."""
        stats = _stats_file.read(path)
        self._series = [
            stats["memories_allocated"],
            stats["memories_active"],
            stats["memories_reserved"],
        ]
        self._op_index = max(self._series[0], default=-1) + 1
        self._markers = stats["markers"]
        self._num_alloc_retries = stats["num_alloc_retries"]
        self._start = stats["allocated_at_start"]

    def _hook(self, name: str, module: Any) -> None:
        before = self._create_pre_forward_hook(name)
        after = self._create_post_forward_hook(name)
        self._hooks.append(module.register_forward_pre_hook(before))
        self._hooks.append(module.register_forward_hook(after, always_call=True))

    def _create_pre_forward_hook(self, name: str) -> Callable[..., None]:
        """The hook that runs before the forward pass of a module. A subclass may replace it."""

        def before(module: Any, _inputs: Any) -> None:
            self._given_name = None
            if self._run is not None:
                self._run.modules.enter(name)
                if module is self._run.root():
                    self._add_marker("fw_start")

        return before

    def _create_post_forward_hook(self, name: str) -> Callable[..., None]:  # noqa: ARG002
        """The hook that runs after the forward pass of a module. A subclass may replace it."""

        def after(module: Any, _inputs: Any, _outputs: Any) -> None:
            self._given_name = None
            if self._run is not None:
                self._run.modules.leave()
                if module is self._run.root():
                    self._add_marker("fw_bw_boundary")

        return after

    def _create_backward_hook(self, name: str) -> Callable[..., None]:
        """A hook for `register_full_backward_hook`: names operators after the module from then on.

        As in the original, `start_monitor` does not register it.
        """

        def backward(_module: Any, _grad_input: Any, _grad_output: Any) -> None:
            self._given_name = f"{name}.backward"

        return backward

    def _after_operator(self, operator: str) -> None:
        with self._lock:
            number = self._operator_names[operator]
            self._operator_names[operator] += 1
        self._record_memory_stats(f"{self._cur_module_name}.{operator}_{number}")

    def _record_memory_stats(self, fn_name: str) -> None:
        """Note the levels of this time under a name, and the number `_op_index`."""
        began_run = self._begin_run(None)
        run = self._run
        assert run is not None
        with self._lock:
            run.record(self._op_index, fn_name)
            self._op_index += 1
        if began_run:
            self._end_run()

    def _add_marker(self, marker_name: str) -> None:
        """Mark the operator that comes next."""
        self._markers[marker_name] = self._op_index

    def _clear_state(self) -> None:
        """Forget what was tracked."""
        for series in self._series:
            series.clear()
        self._op_index = 0
        self._start = None
        self._given_name = None
        self._operator_names.clear()
        self._markers.clear()
        self._num_alloc_retries = 0

    def _settled(self) -> list[Series]:
        """All three series, with the operators that ran since they were last asked for."""
        if self._run is not None:
            self._read(self._run)
        return self._series

    def _read(self, run: _Run) -> None:
        with self._lock:
            if self._start is None and not self._series[0]:
                self._start = run.start_level() / BYTES_PER_MB
            for at, name, levels in run.read_new():
                for series, level in zip(self._series, levels, strict=True):
                    series[at] = (name, level / BYTES_PER_MB)

    def _begin_run(self, root: Any) -> bool:
        """Record from here on, unless that is done already; whether it began."""
        if self._run is not None:
            return False
        self._run = _Run(root)
        return True

    def _end_run(self) -> None:
        """Take the hooks off, end the recording and read it."""
        run, self._run = self._run, None
        assert run is not None
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        run.stop()
        self._num_alloc_retries = run.alloc_retries()
        self._read(run)


class _Run:
    """From start to stop: which operators ran, in which module, and what memory was after each."""

    def __init__(self, root: Any) -> None:
        #: The operators that ran: the number of each, and its name.
        self._operators: list[tuple[int, str]] = []
        #: How many of them were read.
        self._read = 0
        self.root: Callable[[], Any] = (lambda: None) if root is None else weakref.ref(root)
        self.modules = OperatorModules(torch, root)
        self._device = _device_of(root)
        self._is_cuda = self._device.type == "cuda"
        if self._is_cuda:
            torch.cuda.empty_cache()
        self._recorder = trace(devices=[self._device_name()], stacks=False).start()
        if self._recorder.failure:
            raise _core.FloodmarkError(f"nothing is tracked: {self._recorder.failure}")
        # The end of step 0 is the level before the first operator.
        self._recorder.step()

    def _device_name(self) -> str:
        if not self._is_cuda:
            return "cpu"
        index = self._device.index
        return f"cuda:{torch.cuda.current_device() if index is None else index}"

    def record(self, number: int, name: str) -> None:
        """An operator ran: the levels at the end of this step are those after it."""
        self._operators.append((number, name))
        self._recorder.step()

    def stop(self) -> None:
        """End the recording."""
        self._recorder.stop()

    def alloc_retries(self) -> int:
        """How often the allocator had to try again, as torch counts it."""
        if not self._is_cuda:
            return 0
        return int(torch.cuda.memory_stats(self._device).get("num_alloc_retries", 0))

    def start_level(self) -> int:
        """Bytes allocated before the first operator."""
        return self._levels(0, 1)[0][0]

    def read_new(self) -> list[tuple[int, str, tuple[int, int, int]]]:
        """Operators that were not read yet: number, name, bytes allocated, active and reserved."""
        new = self._operators[self._read :]
        if not new:
            return []
        # Before the steps of operators there is one.
        levels = self._levels(self._read + 1, len(new))
        self._read += len(levels)
        return [(*operator, level) for operator, level in zip(new, levels, strict=False)]

    def _levels(self, first: int, count: int) -> list[tuple[int, int, int]]:
        """Bytes allocated, active and reserved at the ends of steps, from one on."""
        trace = self._recorder.trace
        device = self._device_name()
        if not any(one["device"] == device for one in trace.summary()["devices"]):
            # Nothing was allocated on it.
            return [(0, 0, 0)] * count
        return trace._core.levels_at_steps(device=device, first=first)[:count]


def _device_of(root: Any) -> Any:
    """Where the model is; without one or its parameters, where CUDA is if there is one."""
    for tensor in () if root is None else chain(root.parameters(), root.buffers()):
        return tensor.device
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
