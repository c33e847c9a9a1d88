"""Simulates a GPU in this process.

The phantom is loaded before CUDA is used and stays: CUDA begins once in a process. Sees: the
machine that the core describes. Talks to: `library`, which loads it.
"""

from __future__ import annotations

import os
from types import TracebackType

from floodmark import _core
from floodmark.estimate.device.current_gpu import SimulatedGpu, current, set_current
from floodmark.recording import gpu_account
from floodmark.recording.window_options import parse_bytes


def simulate(machine: _core.PhantomMachine) -> SimulatedGpu:
    """Load the phantom, or go on with the same one."""
    gpu = current()
    if gpu is not None:
        if gpu.is_prepared:
            gpu.phantom.change(machine)
            if machine.world is not None and gpu.machine.world is None:
                # A change of the program has made it a rank: torch.distributed is there already.
                from floodmark.world import phantom_world

                phantom_world.install(gpu.phantom)
            gpu.machine = machine
            gpu.is_prepared = False
        if gpu.machine != machine:
            raise _core.PhantomError(
                f"{gpu.machine.name} is simulated already, and CUDA begins once in a process\n"
                "hint: use one GPU in a process, or another process for another GPU"
            )
        return gpu
    # Not before they are needed: a program that only reads traces never is.
    from floodmark.estimate.device import library
    from floodmark.estimate.fake import torch_cuda
    from floodmark.estimate.phantom import autotuning, nccl_watchdogs
    from floodmark.estimate.values import process_hooks
    from floodmark.world import launched_ranks, phantom_world

    if machine.world is not None:
        phantom_world.refuse_what_has_begun()
    # Fake tensors may have loaded it, for its answers about devices alone.
    phantom = library.loaded_with(machine) or library.load(machine)
    torch_cuda.show()
    process_hooks.install(phantom)
    nccl_watchdogs.install()
    autotuning.install()
    (launched_ranks if machine.world is None else phantom_world).install(phantom)
    gpu = SimulatedGpu(machine, phantom)
    set_current(gpu)
    gpu_account.register(gpu)
    return gpu


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
