"""A block of a program on a simulated GPU: what all engines do at its end.

Sees: how the block ended. Knows nothing of engines.
"""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType

from floodmark.estimate.outcome import Outcome


class Block:
    """What was entered with the block is left with it, however it ends."""

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
        """The block is over; `error` is what it raised."""
        self.outcome.end(error)
