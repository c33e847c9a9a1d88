"""A block of a program on a phantom GPU. The phantom stays: CUDA begins once in a process.

Sees: the machine that is played. Talks to: `_played`, and torch's counters for the level.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType

from floodmark import _core, _endings, _played, plugins
from floodmark.plugins import Setting


class PhantomBlock:
    """What is entered with the block."""

    def __init__(self, machine: _core.PhantomMachine, without: Iterable[str]) -> None:
        self._played = _played.play(machine)
        self._without = tuple(without)
        self._stack = ExitStack()
        self.setting = Setting(
            engine="phantom", gpus=machine.gpus, world=machine.world, rank=machine.rank
        )

    def __enter__(self) -> PhantomBlock:
        with self._stack:
            for plugin in plugins.known("phantom", self._without):
                self._stack.enter_context(plugin(self.setting))
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def end(self, error: BaseException | None) -> None:
        """How the block ended."""
        played = self._played
        played.ended, played.error = ("done", "") if error is None else _endings.of(error)

    def end_by_steps(self) -> None:
        """It was stopped after enough steps, and nothing else is known of its end."""
        if self._played.ended == "unknown":
            self._played.ended = "steps"

    def level(self, device: str) -> tuple[int, int, int, int]:
        """Allocated, its peak, reserved and its peak on a device."""
        from torch import cuda

        return (
            cuda.memory_allocated(device),
            cuda.max_memory_allocated(device),
            cuda.memory_reserved(device),
            cuda.max_memory_reserved(device),
        )
