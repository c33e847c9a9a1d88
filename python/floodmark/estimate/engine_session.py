"""The base of both engines' sessions: one run of a program on a simulated GPU.

Sees: how the run ended. Does not depend on an engine.
"""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType

from floodmark.estimate.outcome import Outcome


class EngineSession:
    """A context manager that leaves every context that it entered."""

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
        """End the session; `error` is the program's exception, if any."""
        self.outcome.end(error)
