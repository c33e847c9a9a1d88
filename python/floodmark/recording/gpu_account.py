"""Simulated GPUs, as a recording sees them.

`estimate` simulates a GPU and registers it here; recordings write into their headers what it says.
A GPU that is simulated for blocks of fake tensors alone is lent: it is no part of the program, and
recordings of the program leave it out. Imports nothing of `estimate`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from floodmark import _core

if TYPE_CHECKING:
    from floodmark.reports.answer_types import DeviceInfo, Phantom


class GpuAccount(Protocol):
    """What a simulated GPU says of itself."""

    def about(self, *, is_over: bool) -> Phantom:
        """What a trace says of it."""


class FakeGpuAccount(GpuAccount, Protocol):
    """The same of a GPU for fake tensors, which reports blocks instead of torch."""

    def devices(self) -> list[DeviceInfo]:
        """The devices, as a header has them."""

    def block_source(self) -> _core.BlockSource:
        """Fake tensors, with the devices that torch has or without."""


_registered: GpuAccount | None = None
_is_lent = False
#: What attaches the recorder to CUDA, once that is the program's.
_attach: Callable[[], None] | None = None


def register(gpu: GpuAccount) -> None:
    """Name `gpu` in every recording from now on, until the process ends."""
    global _registered, _is_lent, _attach
    _registered = gpu
    _is_lent = False
    _core.lend_cuda(False)
    attach, _attach = _attach, None
    if attach is not None:
        attach()


def lend_cuda() -> None:
    """From now on torch's CUDA devices are those of fake tensors, unless the program has them."""
    global _is_lent
    if _registered is None:
        _is_lent = True
        _core.lend_cuda(True)


def when_cuda_is_the_programs(attach: Callable[[], None]) -> None:
    """Call `attach` now, or when CUDA is not lent any more; the last one counts."""
    global _attach
    if _is_lent:
        _attach = attach
    else:
        attach()


def registered() -> GpuAccount | None:
    """The GPU that is simulated in the whole process, where one is."""
    return _registered
