"""`torch.multiprocessing.spawn` in a process that is one rank of many: one of its processes runs.

Sees: the arguments of a call. Starts no process.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

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
    signature = inspect.signature(original)

    @wraps(original)
    def spawn(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        index = rank % max(1, given["nprocs"])
        say(f"of {given['nprocs']} processes that would be spawned, number {index} runs here")
        given["fn"](index, *given["args"])
        return None if given.get("join", True) else _Finished()

    return spawn
