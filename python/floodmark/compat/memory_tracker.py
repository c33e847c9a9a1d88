"""`torch.distributed._tools.memory_tracker`: memory after every operator.

    from floodmark.compat.memory_tracker import MemoryTracker

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
- The numbers are of floodmark's recording, and there after `stop`: no counter is read after every
  operator. On CUDA they are torch's own totals. The CPU too: it caches nothing, so active and
  reserved are what is allocated.
- `show_traces` draws into files and needs no matplotlib.
- `load` runs nothing that a file says. Files go both ways between this and the original.
- `summary` also works after `load`, where the original prints nothing.
- The root module gets no attribute, and hooks go away also when a forward pass raised.
"""

from __future__ import annotations

import csv
import json
import os
import threading
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from floodmark import _compat, _core, _recorder
from floodmark.compat import _stats_file

__all__ = ["MemoryTracker"]

BYTES_PER_MB = 1024 * 1024.0


class MemoryTracker:
    """Memory after every operator: allocated, active and reserved, in MB.

    `memories_allocated`, `memories_active` and `memories_reserved` map the number of an operator
    call to its name and the megabytes after it. `markers` has the numbers at which the forward pass
    of the root began (`fw_start`) and ended (`fw_bw_boundary`).
    """

    def __init__(self) -> None:
        self.memories_allocated: dict[int, tuple[str, float]] = {}
        self.memories_active: dict[int, tuple[str, float]] = {}
        self.memories_reserved: dict[int, tuple[str, float]] = {}
        self._markers: dict[str, int] = {}
        self._num_alloc_retries = 0
        self._run: _Run | None = None

    @property
    def markers(self) -> dict[str, int]:
        """Where the forward pass began and ended, as numbers of operator calls."""
        return self._markers

    def start_monitor(self, root_module: Any) -> None:
        """Begin: operators of the whole thread, and of the backward passes that it starts."""
        if self._run is not None:
            raise _core.FloodmarkError("the tracker runs already: call stop() first")
        for series in (self.memories_allocated, self.memories_active, self.memories_reserved):
            series.clear()
        self._markers.clear()
        self._num_alloc_retries = 0
        self._run = _Run(root_module, self._markers)

    def stop(self) -> None:
        """End, and take the hooks off."""
        if self._run is None:
            raise _core.FloodmarkError("the tracker does not run: call start_monitor() first")
        run, self._run = self._run, None
        self._num_alloc_retries = run.stop()
        for at, (name, levels) in enumerate(zip(run.names, run.levels(), strict=True)):
            allocated, active, reserved = (level / BYTES_PER_MB for level in levels)
            self.memories_allocated[at] = (name, allocated)
            self.memories_active[at] = (name, active)
            self.memories_reserved[at] = (name, reserved)

    def summary(self, top: int = 20) -> None:
        """Print the operators after which most more was allocated than before."""
        grew: dict[str, float] = {}
        levels = list(self.memories_allocated.values())
        for (_, before), (name, after) in pairwise(levels):
            grew[name] = after - before
        print("------------------------------------------------")
        print(f"The number of alloc retries are: {self._num_alloc_retries}")
        print(f"Top {top} ops that generates memory are:")
        for name, change in sorted(grew.items(), key=lambda item: item[1], reverse=True)[:top]:
            print(f"{name}: {change}MB")
        print("------------------------------------------------")

    def show_traces(self, path: str | os.PathLike[str] = "") -> None:
        """Draw four pictures, all together and then each, and say where they are.

        With `path`, of a file of `save_stats`, and beside it; otherwise in this folder.
        """
        if path != "":
            self.load(path)
        beside = Path(path or "memory_tracker").with_suffix("")
        series = {
            "allocated_memory": self.memories_allocated,
            "active_memory": self.memories_active,
            "reserved_memory": self.memories_reserved,
        }
        self._draw(series, f"{beside}.memory.png")
        for name, levels in series.items():
            self._draw({name: levels}, f"{beside}.{name}.png")

    def _draw(self, series: dict[str, dict[int, tuple[str, float]]], path: str) -> None:
        # The last line lies on top of the others.
        lines = [
            {
                "name": name,
                "points": [[at, level * BYTES_PER_MB] for at, (_, level) in levels.items()],
            }
            for name, levels in reversed(series.items())
        ]
        marks = [
            {"at": at, "name": name, "emphasis": "strong" if "boundary" in name else "plain"}
            for name, at in self._markers.items()
        ]
        chart = {
            "title": "Memory after every operator",
            "subtitle": f"{len(self.memories_allocated)} operator calls",
            "across": "count",
            "across_name": "# Operator Calls",
            "series": lines,
            "marks": marks,
        }
        Path(path).write_bytes(_core.draw(json.dumps(chart), "png"))
        print(f"wrote `{path}`")

    def save_stats(self, path: str | os.PathLike[str]) -> None:
        """Write the numbers to a file, for this `load` and the original's."""
        stats = {
            "memories_allocated": self.memories_allocated,
            "memories_active": self.memories_active,
            "memories_reserved": self.memories_reserved,
            "markers": self._markers,
            "num_alloc_retries": self._num_alloc_retries,
        }
        _stats_file.write(path, stats)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Read a file of `save_stats`, also one that the original wrote, without running it."""
        stats = _stats_file.read(path)
        self.memories_allocated = stats["memories_allocated"]
        self.memories_active = stats["memories_active"]
        self.memories_reserved = stats["memories_reserved"]
        self._markers = stats["markers"]
        self._num_alloc_retries = stats["num_alloc_retries"]


class _Run:
    """From start to stop: which operators ran, in which module, and what memory was after each."""

    def __init__(self, root: Any, markers: dict[str, int]) -> None:
        import torch

        self.names: list[str] = []
        self._torch = torch
        self._markers = markers
        self._calls: dict[str, int] = defaultdict(int)
        self._places = _Places(torch, root)
        self._lock = threading.Lock()
        self._device = _device_of(torch, root)
        self._is_cuda = self._device.type == "cuda"
        if self._is_cuda:
            torch.cuda.empty_cache()
        self._recorder = _recorder.trace(devices=[self._device_name()], stacks=False).start()
        if self._recorder.failure:
            raise _core.FloodmarkError(f"nothing is tracked: {self._recorder.failure}")
        self._hooks: list[Any] = []
        for name, module in root.named_modules():
            before, after = self._around(name, module is root)
            self._hooks.append(module.register_forward_pre_hook(before))
            self._hooks.append(module.register_forward_hook(after, always_call=True))
        self._mode = _mode(self._after_operator)
        self._mode.__enter__()

    def _device_name(self) -> str:
        if not self._is_cuda:
            return "cpu"
        index = self._device.index
        return f"cuda:{self._torch.cuda.current_device() if index is None else index}"

    def _around(self, name: str, is_root: bool) -> tuple[Callable[..., None], Callable[..., None]]:
        def before(*_: object) -> None:
            self._places.enter(name)
            if is_root:
                self._markers["fw_start"] = len(self.names)

        def after(*_: object) -> None:
            self._places.leave()
            if is_root:
                self._markers["fw_bw_boundary"] = len(self.names)

        return before, after

    def _after_operator(self, operator: str) -> None:
        place = self._places.now()
        with self._lock:
            self.names.append(f"{place}.{operator}_{self._calls[operator]}")
            self._calls[operator] += 1
            # The trace says what was there when this step ended.
            _core.step()

    def stop(self) -> int:
        """Take everything off; how often the allocator had to try again."""
        self._mode.__exit__(None, None, None)
        for hook in self._hooks:
            hook.remove()
        self._recorder.stop()
        if not self._is_cuda:
            return 0
        # torch counts them, and tells nobody when one happens.
        return int(self._torch.cuda.memory_stats(self._device).get("num_alloc_retries", 0))

    def levels(self) -> list[tuple[int, int, int]]:
        """Bytes allocated, active and reserved after each operator."""
        if not self.names:
            return []
        core = self._recorder.trace._core
        written = core.export(to="csv-steps", device=self._device_name())
        found = []
        for row in csv.DictReader((written or b"").decode().splitlines()):
            allocated = int(row["allocated"])
            found.append(
                (allocated, int(row["active"] or allocated), int(row["reserved"] or allocated))
            )
        return found[: len(self.names)]


class _Places:
    """Which module runs, on which thread, forward or backward."""

    def __init__(self, torch: Any, root: Any) -> None:
        self._torch = torch
        self._threads = threading.local()
        # The numbers of autograd nodes from which on a module ran; None outside of all modules.
        self._numbers: list[int] = []
        self._names: list[str | None] = []
        self._owners = {
            id(tensor): name.rpartition(".")[0] for name, tensor in root.named_parameters()
        }

    def _inside(self) -> list[str]:
        stack: list[str] | None = getattr(self._threads, "stack", None)
        if stack is None:
            stack = self._threads.stack = []
        return stack

    def enter(self, name: str) -> None:
        """A module begins."""
        self._inside().append(name)
        self._note()

    def leave(self) -> None:
        """The innermost module ends."""
        stack = self._inside()
        if stack:
            stack.pop()
        self._note()

    def _note(self) -> None:
        number = _compat.sequence_number(self._torch)
        if number is None or (self._numbers and number < self._numbers[-1]):
            return
        stack = self._inside()
        self._numbers.append(number)
        self._names.append(stack[-1] if stack else None)

    def now(self) -> str:
        """`layer.forward`, `layer.backward`, `backward`, or nothing outside of both."""
        stack = self._inside()
        if stack:
            return f"{stack[-1]}.forward"
        node = _compat.backward_node(self._torch)
        if node is None:
            return ""
        name = self._of_node(node)
        return "backward" if name is None else f"{name}.backward"

    def _of_node(self, node: Any) -> str | None:
        variable = getattr(node, "variable", None)
        if variable is not None:
            return self._owners.get(id(variable))
        number = _compat.sequence_number_of(node)
        at = 0 if number is None else bisect_right(self._numbers, number)
        return self._names[at - 1] if at > 0 else None


def _device_of(torch: Any, root: Any) -> Any:
    """Where the model is; without parameters, where CUDA is if there is one."""
    for tensor in chain(root.parameters(), root.buffers()):
        return tensor.device
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _mode(tell: Callable[[str], None]) -> Any:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class AfterOperators(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            if func is not torch.ops.aten.detach.default:
                tell(func.__name__)
            return result

    return AfterOperators()
