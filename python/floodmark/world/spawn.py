"""Replaces `torch.multiprocessing.spawn` in a simulated world: runs one of its processes here.

Sees: the arguments of a call. Starts no process.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import BoundArguments
from typing import Any

from floodmark.world.replaced_names import with_arguments

#: The functions of `torch.multiprocessing.spawn` that start processes.
FUNCTIONS = ("spawn", "start_processes")


class _Finished:
    """The result of `spawn(join=False)`: processes that have ended."""

    processes: tuple[Any, ...] = ()

    def pids(self) -> list[int]:
        return []

    def join(self, *_args: Any, **_kwargs: Any) -> bool:
        return True


def run_here(
    original: Callable[..., Any], rank: int, say: Callable[[str], None]
) -> Callable[..., Any]:
    """A replacement of `spawn` that runs the process of this rank in this process."""

    def spawn(bound: BoundArguments) -> Any:
        bound.apply_defaults()
        given = bound.arguments
        index = rank % max(1, given["nprocs"])
        say(f"of {given['nprocs']} processes that would be spawned, number {index} runs here")
        given["fn"](index, *given["args"])
        return None if given.get("join", True) else _Finished()

    return with_arguments(original, spawn)
