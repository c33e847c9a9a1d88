"""One run of a program on a simulated GPU: what both engines do at its end.

Sees: how the run ended. Does not depend on an engine.
"""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType

from floodmark.estimate.outcome import Outcome


class EngineSession:
    """A context manager that leaves every context it entered, however the program ends."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome
        self._stack = ExitStack()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def end(self, error: BaseException | None) -> None:
        """The program is over; `error` is what it raised."""
        self.outcome.end(error)
