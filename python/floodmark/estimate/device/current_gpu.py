"""The simulated GPU of this process, if there is one.

Sees: the machine that the core describes. Talks to: `library`, which `simulated_gpu` loads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from floodmark import _core
from floodmark.estimate.outcome import Outcome

if TYPE_CHECKING:
    from floodmark.estimate.device.library import Phantom
    from floodmark.reports import answer_types


class SimulatedGpu:
    """A simulated machine, and how the program on it ended."""

    def __init__(self, machine: _core.PhantomMachine, phantom: Phantom) -> None:
        self.machine = machine
        self.phantom = phantom
        self.outcome = Outcome()
        #: Notes of plugins: what they assume or leave out.
        self.notes: list[str] = []
        #: Whether no program uses it yet: a fork may still change its memory.
        self.is_prepared = False

    def about(self, *, is_over: bool) -> answer_types.Phantom:
        """The entry of the trace's header."""
        library = self.phantom.library
        devices: list[answer_types.PhantomDevice] = [
            {
                "index": None if number == index else index,
                "capacity": capacity,
                "context": context,
                "peak_driver_bytes": peak,
                "libraries_at_peak": [
                    {"library": library, "bytes": held} for library, held in libraries
                ],
            }
            for number, (index, capacity, context, peak, libraries) in enumerate(library.devices())
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
    """The GPU that is simulated now, or None."""
    return _now


def set_current(gpu: SimulatedGpu) -> None:
    """Set the GPU that is simulated until the process ends."""
    global _now
    _now = gpu
