"""Attaches the recorder to torch, once for all windows.

The first window starts the recorder; this attaches torch when it is imported, and CUDA when it is
initialised. Facts about both go into the header of every open window.

Sees: torch, and the windows that are open. Talks to: `_core`, which names modules and tensors.
Raises nothing into the program: each part that cannot be recorded gets one warning, on stderr and
in the traces.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

# Not from `os`, where a program may replace it.
from posix import getpid
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypedDict

from floodmark import _core, torch_private
from floodmark.recording import gpu_account, initial_blocks
from floodmark.recording.import_watch import ImportWatch
from floodmark.recording.own_errors import OwnErrors
from floodmark.recording.window_options import say

if TYPE_CHECKING:
    from floodmark.reports.answer_types import DeviceInfo

#: Called when there are new facts about torch or CUDA.
Listener = Callable[[], None]


class TorchFacts(TypedDict, total=False):
    """The known facts about torch and the devices for headers."""

    torch: str
    cuda: str
    driver: str
    allocator_backend: str
    devices: list[DeviceInfo]
    has_initial_blocks: bool


class Attachment:
    """The connection of one recorder to torch, shared by its windows."""

    def __init__(self, *, is_fake: bool) -> None:
        self.pid = getpid()
        self.is_fake = is_fake
        self.facts: TorchFacts = {}
        #: Contains `segments` if the allocator reports them.
        self.recorded: list[str] = []
        self.not_recorded: list[str] = []
        self._listeners: list[Listener] = []
        self._torch_was_there = "torch" in sys.modules
        self._torch: ModuleType | None = None
        self._watch: ImportWatch | None = None
        self._hooks: _core.OptimizerHooks | None = None
        self._handles: list[Any] = []
        self._has_cpu = False

    def open(self, core: _core.Window, *, cpu: bool, cuda: int, listener: Listener) -> list[str]:
        """Record the blocks that were live when a window opened; returns warnings about missing
        ones."""
        self._listeners.append(listener)
        if self._torch is None:
            self._has_cpu = self._has_cpu or cpu
            if self._watch is None:
                self._watch = ImportWatch("torch", self._attach)
            return []
        remarks = []
        if not self.is_fake:
            if cpu and not core.has_cpu:
                remarks = initial_blocks.record_host_blocks()
            if cuda and not core.has_cuda and "segments" in self.recorded:
                with OwnErrors():
                    initial_blocks.record_device_blocks(self._torch)
        if self._hooks is None:
            self._listen()
        return remarks

    def close(self, listener: Listener) -> None:
        """Remove a window that is about to close, and torch's hooks with the last one."""
        if listener in self._listeners:
            self._listeners.remove(listener)
        if not self._listeners:
            self.remove_hooks()

    @property
    def has_torch(self) -> bool:
        """Whether torch is attached."""
        return self._torch is not None

    def remove_hooks(self) -> None:
        """Remove the hooks that run while a window is open."""
        with OwnErrors():
            if self._watch is not None:
                self._watch.stop()
            if self._hooks is not None:
                self._hooks.remove()
            for handle in self._handles:
                handle.remove()
        self._watch = None
        self._hooks = None
        self._handles = []

    def _call_listeners(self) -> None:
        for listener in list(self._listeners):
            with OwnErrors():
                listener()

    def _attach(self, torch: ModuleType) -> None:
        with OwnErrors() as caught:
            self._attach_torch(torch)
        if caught.error is not None:
            self.not_recorded.append(f"torch could not be attached: {caught.error!r}")
            say(f"torch could not be attached, nothing is recorded: {caught.error!r}")
        self._call_listeners()

    def _attach_torch(self, torch: ModuleType) -> None:
        self.facts["torch"] = torch_private.version_text(torch)
        self.facts["cuda"] = str(torch.version.cuda or "")
        is_proven = initial_blocks.prove_tensors(torch)
        seen = _core.attach_torch(str(Path(str(torch.__file__)).parent) + os.sep)
        if seen is None:
            return
        self._torch = torch
        if not self.is_fake and "cuda" not in seen:
            self.not_recorded.append(
                "CUDA allocations are not seen: this build of torch does not report"
            )
        if self._has_cpu and not self.is_fake and "cpu" not in seen:
            self.not_recorded.append(
                "CPU allocations are not seen: this build of torch does not report"
            )
        # Hooks first: a block that is freed during the search must not count as live.
        if self._has_cpu and self._torch_was_there and not self.is_fake:
            self.not_recorded += initial_blocks.record_host_blocks()
        if "backward" not in seen:
            self.not_recorded.append("backward allocations are not tied to their forward lines")
        if not is_proven or "saved" not in seen:
            self.not_recorded.append(
                "tensors that autograd saves are not seen in this build of torch"
            )
        elif "unpacked" not in seen:
            self.not_recorded.append(
                "the last use of saved tensors is not seen in this build of torch"
            )
        self.recorded += [name for name in ("saved", "unpacked") if name in seen]
        _core.attach_names(torch_private.parts_for_names(torch))
        self._listen()
        if not self.is_fake:
            torch_private.when_cuda_is_ready(
                torch,
                lambda: gpu_account.when_cuda_is_the_programs(lambda: self._attach_cuda(torch)),
            )

    def _listen(self) -> None:
        """Hook the steps of every optimizer with native functions."""
        from torch.optim import optimizer as optimizers

        self._hooks = _core.OptimizerHooks()
        self._handles = [
            optimizers.register_optimizer_step_pre_hook(self._hooks.before),
            optimizers.register_optimizer_step_post_hook(self._hooks.after),
        ]

    def _attach_cuda(self, torch: ModuleType) -> None:
        """Attach CUDA. torch calls this once CUDA is ready; it must not raise."""
        if self is not _current or self.pid != getpid():
            return
        with OwnErrors():
            self._describe_devices(torch)
        with OwnErrors() as caught:
            backend = str(torch.cuda.memory.get_allocator_backend())
            self.facts["allocator_backend"] = backend
            if backend != "native":
                self.not_recorded.append(
                    f"the `{backend}` allocator does not report requested sizes and segments, "
                    "and may not report blocks"
                )
            elif _core.attach_tracker(torch_private.has_pool_ids(torch)):
                self.recorded.append("segments")
                initial_blocks.record_device_blocks(torch)
                self.facts["has_initial_blocks"] = True
            else:
                self.not_recorded.append(
                    "requested sizes and segments are not seen: no trace tracker"
                )
        if caught.error is not None:
            self.not_recorded.append(f"CUDA could not be attached fully: {caught.error!r}")
        self._call_listeners()

    def _describe_devices(self, torch: ModuleType) -> None:
        self.facts["driver"] = torch_private.driver_version()
        devices: list[DeviceInfo] = []
        for index in range(torch.cuda.device_count()):
            about = torch.cuda.get_device_properties(index)
            devices.append(
                {
                    "device": f"cuda:{index}",
                    "name": str(about.name),
                    "total_bytes": int(about.total_memory),
                    "compute_capability": f"{about.major}.{about.minor}",
                    "multiprocessors": int(about.multi_processor_count),
                    "uuid": str(getattr(about, "uuid", "")),
                }
            )
        self.facts["devices"] = devices


_current: Attachment | None = None


def attachment_of(core: _core.Window, *, is_fake: bool) -> Attachment:
    """The attachment of the recorder that a window was opened on."""
    global _current
    if _current is None or _current.pid != getpid() or not core.is_attached:
        if _current is not None:
            _current.remove_hooks()
        _core.forget_names()
        _current = Attachment(is_fake=is_fake)
    elif core.is_renewed:
        _core.forget_names()
    return _current
