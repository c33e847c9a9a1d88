"""Chooses the engine of an estimate: the phantom if it can be loaded, else fake tensors.

Sees: the machine that is simulated. Talks to: the sessions of both engines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from floodmark import _core
from floodmark.estimate.fake.session import FakeSession
from floodmark.estimate.phantom.session import PhantomSession

if TYPE_CHECKING:
    from floodmark.reports.answer_types import Engine


def session_for(
    machine: _core.PhantomMachine,
    engine: Engine | None,
    without: Iterable[str] = (),
    say: Callable[[str], None] | None = None,
) -> PhantomSession | FakeSession:
    """A session of `engine`, by default of the best that works; `say` gets the reason for
    `fake`."""
    if engine != "fake":
        try:
            return PhantomSession(machine, without)
        except _core.PhantomError as error:
            if engine is not None:
                raise
            if say is not None:
                say(f"fake tensors instead of a phantom: {str(error).splitlines()[0]}")
    return FakeSession(machine, without)
