"""`torch.multiprocessing.spawn` in a process that is one rank of many: one of its processes runs.

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
    """What `spawn(join=False)` gives: processes that are done."""

    processes: tuple[Any, ...] = ()

    def pids(self) -> list[int]:
        return []

    def join(self, *_args: Any, **_kwargs: Any) -> bool:
        return True


def run_here(
    original: Callable[..., Any], rank: int, say: Callable[[str], None]
) -> Callable[..., Any]:
    """The function, which runs the process that this rank would be, in this one."""

    def spawn(bound: BoundArguments) -> Any:
        bound.apply_defaults()
        given = bound.arguments
        index = rank % max(1, given["nprocs"])
        say(f"of {given['nprocs']} processes that would be spawned, number {index} runs here")
        given["fn"](index, *given["args"])
        return None if given.get("join", True) else _Finished()

    return with_arguments(original, spawn)
