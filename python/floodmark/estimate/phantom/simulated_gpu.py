"""Simulates a GPU in this process.

The phantom is loaded before CUDA is used and stays: CUDA is initialised once per process. Sees: the
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
    """Load the phantom, or return the one that simulates the same machine."""
    gpu = current()
    if gpu is not None:
        if gpu.is_prepared:
            gpu.phantom.change(machine)
            if machine.world is not None and gpu.machine.world is None:
                # A change (`--with`) has made the process a rank and initialised torch.distributed
                # already.
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
    # Imported here, because a program that only reads traces never needs them.
    from floodmark.estimate.device import library
    from floodmark.estimate.fake import torch_cuda
    from floodmark.estimate.phantom import autotuning, nccl_watchdogs
    from floodmark.estimate.values import process_hooks
    from floodmark.world import launched_ranks, phantom_world

    if machine.world is not None:
        phantom_world.refuse_initialized()
    # Fake tensors may have loaded it, only so that torch finds devices.
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

    torch may be imported before or after. Memory is exact, computed values are meaningless. CUDA
    cannot be unloaded, so the phantom stays after the block until the process ends.
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
        """The device name that the driver of the real GPU reports."""
        return self._machine.name

    @property
    def memory(self) -> int:
        """The memory of the GPU in bytes."""
        return self._machine.memory

    @property
    def context(self) -> int:
        """The bytes of the CUDA context."""
        return self._machine.context

    @property
    def is_checked(self) -> bool:
        """Whether estimates with its profile were compared with a real GPU."""
        return self._machine.is_checked
