"""A world of any size in one process: this process is rank r of N, and no other rank runs.

`install` sets what a launcher would set and waits for `torch.distributed` to be imported. Groups
for CUDA are torch's own, on the phantom's NCCL; those for the host are torch's fake ones. Sees: the
machine of a phantom.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from inspect import BoundArguments
from types import ModuleType
from typing import Any

from floodmark import torch_private_distributed
from floodmark._core import PhantomError
from floodmark.recording.import_watch import ImportWatch
from floodmark.recording.window_options import say
from floodmark.world import group_sizes, host_collectives
from floodmark.world.launcher import launched_as
from floodmark.world.object_collectives import Objects
from floodmark.world.process_groups import begin_as, keep_name, register_fake_backend
from floodmark.world.replaced_names import everywhere, with_arguments
from floodmark.world.spawn import FUNCTIONS, run_here
from floodmark.world.store import store_class

# The backend name of the groups that replace those of the host.
_HOST_BACKEND = "phantom"
_REPLACED = ("gloo", "mpi", "ucc")

# Variables that disable torch's threads for watching the other ranks, which do not run.
_QUIET = {
    "TORCH_NCCL_ENABLE_MONITORING": "0",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
    "TORCH_NCCL_PROPAGATE_ERROR": "0",
    "TORCH_NCCL_DESYNC_DEBUG": "0",
    "TORCH_DISTRIBUTED_DEBUG": "OFF",
    "TORCH_NCCL_NAN_CHECK": "0",
}


class World:
    """The simulated world of this process."""

    def __init__(self, phantom: Any) -> None:
        self.rank = phantom.machine.rank or 0
        self.size = phantom.machine.world or 1
        self.devices = phantom.machine.gpus
        self._said: set[str] = set()
        self._has_said_one = False
        self._library = phantom.library
        self._c10d: Any = None
        self._watches: list[ImportWatch] = []

    def say(self, what: str) -> None:
        """Print a note, and add it to the answer, once."""
        if what not in self._said:
            self._said.add(what)
            say(what)

    def _say_first(self, what: str) -> None:
        """Print the first of several similar notes."""
        if not self._has_said_one:
            self._has_said_one = True
            self.say(what)

    def start(self) -> None:
        """Set the environment, and change torch's modules once they are imported."""
        os.environ.update(_QUIET)
        for name, value in launched_as(self.rank, self.size, self.devices).items():
            os.environ.setdefault(name, value)
        self._watches = [
            ImportWatch("torch.distributed.distributed_c10d", everywhere(self._change_groups)),
            ImportWatch("torch.multiprocessing.spawn", everywhere(self._change_spawn)),
        ]
        atexit.register(self._leave)

    def _change_groups(self, c10d: ModuleType) -> None:
        self._c10d = c10d
        bindings = torch_private_distributed.c10d_bindings()
        # torch.distributed reads it at its import, which may have been earlier.
        bindings.set_debug_level_from_env()
        store = store_class(bindings.Store, self.rank, self.size, self._say_first)
        self._change_stores(bindings, store)
        register_fake_backend(c10d, _HOST_BACKEND)
        self._wrap_init(store)
        group_sizes.watch(c10d, self._library)
        self._wrap_helper()
        wrapper = torch_private_distributed.group_wrapper(c10d)
        if hasattr(*wrapper):
            setattr(*wrapper, lambda wrapped_pg, **_: wrapped_pg)
        host_collectives.wrap_all(c10d)
        for name, stand_in in Objects(c10d, self.say, has_bytes=True).functions().items():
            setattr(c10d, name, stand_in)

    def _change_stores(self, bindings: Any, store: Any) -> None:
        """Replace stores that would connect to other processes."""
        for name in ("TCPStore", "FileStore"):
            own = type(name, (store,), {})
            for module in ("distributed", "distributed.distributed_c10d", "distributed.rendezvous"):
                owner = sys.modules.get(f"torch.{module}")
                if owner is not None and hasattr(owner, name):
                    setattr(owner, name, own)
            setattr(bindings, name, own)

    def _wrap_init(self, store: Any) -> None:
        original = self._c10d.init_process_group

        def init_process_group(bound: BoundArguments) -> Any:
            given = bound.arguments
            if "fake" in str(given.get("backend", "")).lower():
                return original(*bound.args, **bound.kwargs)
            own_store = given.get("store")
            if not isinstance(own_store, store):
                own_store = store()
            if other := begin_as(given, (self.rank, self.size), own_store):
                self.say(other)
            return original(*bound.args, **bound.kwargs)

        self._c10d.init_process_group = with_arguments(original, init_process_group)

    def _wrap_helper(self) -> None:
        """Replace the backends of host groups where torch creates groups; they keep their names."""
        c10d = self._c10d
        slot = torch_private_distributed.group_helper(c10d)
        original = getattr(*slot)

        def helper(bound: BoundArguments) -> Any:
            asked = bound.arguments["backend"]
            bound.arguments["backend"] = c10d.Backend(_host_replaced(str(asked)))
            made = original(*bound.args, **bound.kwargs)
            keep_name(c10d, made, asked)
            return made

        setattr(*slot, with_arguments(original, helper))

    def _change_spawn(self, module: ModuleType) -> None:
        for name in FUNCTIONS:
            if hasattr(module, name):
                setattr(module, name, run_here(getattr(module, name), self.rank, self.say))

    def _leave(self) -> None:
        """Destroy the groups while the interpreter still runs: their threads need it."""
        if self._c10d is not None and self._c10d.is_initialized():
            with contextlib.suppress(Exception):
                self._c10d.destroy_process_group()


def _host_replaced(backend: str) -> str:
    """A backend's name with host backends replaced: `cpu:gloo,cuda:nccl`, `gloo`, …"""
    backend = backend.lower()
    if backend in ("", "none", "undefined"):
        return f"cpu:{_HOST_BACKEND},cuda:nccl"
    parts = [part.rpartition(":") for part in backend.split(",")]
    return ",".join(
        device + colon + (_HOST_BACKEND if name in _REPLACED else name)
        for device, colon, name in parts
    )


def refuse_initialized() -> None:
    """Raise if torch.distributed is initialised: a process cannot change its world."""
    c10d: Any = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is not None and c10d.is_initialized():
        raise PhantomError(
            "torch.distributed was initialised before the simulated world\n\n"
            "hint: call `torch.distributed.destroy_process_group()` first"
        )


def install(phantom: Any) -> None:
    """Make this process the rank that the phantom's machine describes."""
    World(phantom).start()
