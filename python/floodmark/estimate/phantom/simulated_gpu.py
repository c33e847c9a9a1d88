"""The GPU that is simulated in this process, where one is.

A phantom is loaded before CUDA is used and stays: CUDA begins once in a process. Sees: the machine
that the core describes. Talks to: `library`, which loads it. Knows nothing of programs and tests.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING

from floodmark import _core
from floodmark.estimate.outcome import Outcome
from floodmark.recording import gpu_account
from floodmark.recording.window_options import parse_bytes

if TYPE_CHECKING:
    from floodmark.estimate.phantom.library import Phantom
    from floodmark.reports import answer_types


class SimulatedGpu:
    """A machine that is simulated, and how the program on it went."""

    def __init__(self, machine: _core.PhantomMachine, phantom: Phantom) -> None:
        self.machine = machine
        self.phantom = phantom
        self.outcome = Outcome()
        #: What plugins assume or leave out.
        self.notes: list[str] = []
        #: Whether no program has it yet: a fork may still change its memory.
        self.is_prepared = False

    def about(self, *, is_over: bool) -> answer_types.Phantom:
        """What a trace says of it."""
        library = self.phantom.library
        devices: list[answer_types.PhantomDevice] = [
            {
                "index": None if number == index else index,
                "capacity": capacity,
                "context": context,
                "peak_driver_bytes": peak,
            }
            for number, (index, capacity, context, peak) in enumerate(library.devices())
        ]
        unsupported: list[answer_types.UnsupportedCall] = [
            {"library": call.library, "name": call.name, "count": call.count}
            for call in library.unsupported()
        ]
        return self.outcome.account(
            "phantom",
            self.machine,
            is_over=is_over,
            devices=devices,
            reads=self.phantom.reads(),
            unsupported=unsupported,
            notes=self.notes,
        )


_now: SimulatedGpu | None = None


def current() -> SimulatedGpu | None:
    """The GPU that is simulated now."""
    return _now


def simulate(machine: _core.PhantomMachine) -> SimulatedGpu:
    """Load the phantom, or go on with the same one."""
    global _now
    if _now is not None:
        if _now.is_prepared:
            _now.phantom.change(machine)
            if machine.world is not None and _now.machine.world is None:
                # A change of the program has made it a rank: torch.distributed is there already.
                from floodmark.estimate.world import phantom_world

                phantom_world.install(_now.phantom)
            _now.machine = machine
            _now.is_prepared = False
        if _now.machine != machine:
            raise _core.PhantomError(
                f"{_now.machine.name} is simulated already, and CUDA begins once in a process\n"
                "hint: use one GPU in a process, or another process for another GPU"
            )
        return _now
    # Not before they are needed: a program that only reads traces never is.
    from floodmark.estimate.fake import torch_cuda
    from floodmark.estimate.phantom import autotuning, library, nccl_watchdogs
    from floodmark.estimate.values import process_hooks
    from floodmark.estimate.world import launched_ranks, phantom_world

    if machine.world is not None:
        phantom_world.refuse_what_has_begun()
    # Fake tensors may have loaded it, for its answers about devices alone.
    phantom = library.loaded_with(machine) or library.load(machine)
    torch_cuda.show()
    process_hooks.install(phantom)
    nccl_watchdogs.install()
    autotuning.install()
    (launched_ranks if machine.world is None else phantom_world).install(phantom)
    _now = SimulatedGpu(machine, phantom)
    gpu_account.register(_now)
    return _now


def prepare(machine: _core.PhantomMachine) -> None:
    """Load the phantom for the forks of this process, each with a machine of its own."""
    simulate(machine).is_prepared = True


class phantom:
    """Simulate a GPU in a process that has not used one.

        with floodmark.phantom("h100", memory="24GiB"):
            model = Model().cuda()

    torch may be imported before or after. Memory is exact, computed values are
    meaningless. CUDA cannot be unloaded: the phantom stays until the process ends, also after the
    block.
    """

    def __init__(
        self,
        gpu: str | os.PathLike[str] = "h200",
        *,
        memory: int | str | None = None,
        gpus: int = 1,
    ) -> None:
        size = None if memory is None else parse_bytes(memory)
        self._machine = _core.PhantomMachine(os.fspath(gpu), memory=size, gpus=gpus)

    def __enter__(self) -> phantom:
        simulate(self._machine)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None

    @property
    def name(self) -> str:
        """What the driver of a real one calls it."""
        return self._machine.name

    @property
    def memory(self) -> int:
        """Its memory, in bytes."""
        return self._machine.memory

    @property
    def context(self) -> int:
        """What the CUDA context takes of it, in bytes."""
        return self._machine.context

    @property
    def is_checked(self) -> bool:
        """Whether estimates with its profile were compared with a real GPU."""
        return self._machine.is_checked
