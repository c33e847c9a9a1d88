"""The simulated GPUs that a recording describes in its header.

`estimate` simulates a GPU and registers it here; recordings write its description into their
headers. A GPU that is simulated only for blocks of fake tensors is lent: recordings of the program
leave it out. Imports nothing of `estimate`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from floodmark import _core

if TYPE_CHECKING:
    from floodmark.reports.answer_types import DeviceInfo, Phantom


class GpuAccount(Protocol):
    """The description of a simulated GPU for a recording."""

    def about(self, *, is_over: bool) -> Phantom:
        """The entry of the trace's header."""


class FakeGpuAccount(GpuAccount, Protocol):
    """A GPU for fake tensors, which reports blocks instead of torch."""

    def devices(self) -> list[DeviceInfo]:
        """The devices in the form of the header."""

    def block_source(self) -> _core.BlockSource:
        """The source of blocks: fake tensors, with or without torch's own CUDA devices."""


_registered: GpuAccount | None = None
_is_lent = False
#: Attaches the recorder to CUDA once the program uses it.
_attach: Callable[[], None] | None = None


def register(gpu: GpuAccount) -> None:
    """Write `gpu` into the header of every recording from now on."""
    global _registered, _is_lent, _attach
    _registered = gpu
    _is_lent = False
    _core.lend_cuda(False)
    attach, _attach = _attach, None
    if attach is not None:
        attach()


def lend_cuda() -> None:
    """Lend torch's CUDA devices to fake tensors, unless the program uses them already."""
    global _is_lent
    if _registered is None:
        _is_lent = True
        _core.lend_cuda(True)


def when_cuda_is_the_programs(attach: Callable[[], None]) -> None:
    """Call `attach` now, or once CUDA is no longer lent; a later call replaces an earlier one."""
    global _attach
    if _is_lent:
        _attach = attach
    else:
        attach()


def registered() -> GpuAccount | None:
    """The GPU that is simulated in the whole process, or None."""
    return _registered
