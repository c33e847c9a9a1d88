"""Simulated GPUs, as a recording sees them.

`estimate` simulates a GPU and registers it here; recordings write into their headers what it says.
Imports nothing of `estimate`.
"""

from __future__ import annotations

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


def register(gpu: GpuAccount) -> None:
    """Name `gpu` in every recording from now on, until the process ends."""
    global _registered
    _registered = gpu


def registered() -> GpuAccount | None:
    """The GPU that is simulated in the whole process, where one is."""
    return _registered
