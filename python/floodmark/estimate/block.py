"""A block of a program on a simulated GPU: what all engines do at its end.

Sees: how the block ended. Knows nothing of engines.
"""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Protocol

from floodmark.estimate.outcome import outcome_of


class Ending(Protocol):
    """Where it is written down how a program ended."""

    ended: str
    error: str


class Block:
    """What was entered with the block is left with it, however it ends."""

    def __init__(self, ending: Ending) -> None:
        self._ending = ending
        self._stack = ExitStack()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def end(self, error: BaseException | None) -> None:
        """How the block ended; what comes after enough steps is no end of its own."""
        if self._ending.ended != "steps":
            ended = ("done", "") if error is None else outcome_of(error)
            self._ending.ended, self._ending.error = ended

    def end_by_steps(self) -> None:
        """The program was stopped after enough steps, whatever it does from here on."""
        if self._ending.ended == "unknown":
            self._ending.ended = "steps"

    def leave(self, status: int) -> None:
        """The process leaves with an exit status, and nothing else is known of its end."""
        if self._ending.ended == "unknown" and status != 0:
            self._ending.ended, self._ending.error = "failed", f"exit status {status}"
