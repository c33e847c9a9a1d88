"""The session of the phantom engine. The phantom stays: CUDA is initialised once per process.

Sees: the machine that is simulated. Talks to: `simulated_gpu`, and torch's memory statistics.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from floodmark import _core, plugins, torch_private
from floodmark.estimate.engine_session import EngineSession
from floodmark.estimate.phantom import simulated_gpu
from floodmark.plugins import Setting


class PhantomSession(EngineSession):
    """Enters the plugins around a program on a phantom GPU."""

    def __init__(self, machine: _core.PhantomMachine, without: Iterable[str]) -> None:
        self.simulated = simulated_gpu.simulate(machine)
        super().__init__(self.simulated.outcome)
        self.outcome.has_fake_tensors = False
        torch = sys.modules.get("torch")
        if torch is not None and not torch_private.runs_backward_on(torch, "cuda"):
            raise _core.PhantomError(
                "a backward pass ran before the simulated GPU was created, and autograd cannot use "
                'it: estimate in a process of its own, or with `engine="fake"`'
            )
        self._without = tuple(without)
        self.setting = Setting(
            engine="phantom", gpus=machine.gpus, world=machine.world, rank=machine.rank
        )
        self.simulated.notes = self.setting.notes

    def __enter__(self) -> PhantomSession:
        with self._stack:
            for plugin in plugins.known("phantom", self._without):
                self._stack.enter_context(plugin(self.setting))
            self._stack = self._stack.pop_all()
        return self

    def level(self, device: str) -> tuple[int, int, int, int]:
        """Allocated and reserved bytes of a device, each with its peak."""
        from torch import cuda

        return (
            cuda.memory_allocated(device),
            cuda.max_memory_allocated(device),
            cuda.memory_reserved(device),
            cuda.max_memory_reserved(device),
        )
