"""The statistics files of torch's `MemoryTracker`, read as data.

The original loads them with `pickle.load`, which runs whatever a file says. Here a file may hold
dictionaries, tuples, text and numbers; an import of anything else is an error, and what is not of
the expected shape is one too.
"""

from __future__ import annotations

import os
import pickle
from typing import Any

from floodmark._core import FloodmarkError

_SERIES = ("memories_allocated", "memories_active", "memories_reserved")


class _Plain(dict[Any, Any]):
    """Stands for `collections.defaultdict`, which the original writes; never makes a value."""

    def __init__(self, *_: object) -> None:
        super().__init__()


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "defaultdict"):
            return _Plain
        # The factory of a `defaultdict(int)`; a name is enough: it is not called.
        if (module, name) in (("builtins", "int"), ("__builtin__", "int")):
            return _NotCalled
        raise pickle.UnpicklingError(f"it wants to import `{module}.{name}`")


class _NotCalled:
    def __init__(self, *_: object) -> None:
        raise pickle.UnpicklingError("it wants to call `int`")


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The statistics in a file, as plain dictionaries."""
    with open(path, "rb") as file:
        try:
            found = _Reader(file).load()
            return _checked(found)
        except FloodmarkError:
            raise
        except Exception as error:
            raise FloodmarkError(
                f"not a file of `MemoryTracker.save_stats`: {error}: `{os.fspath(path)}`"
            ) from error


def write(path: str | os.PathLike[str], stats: dict[str, Any]) -> None:
    """A file that the original reads too."""
    with open(path, "wb") as file:
        pickle.dump(_checked(stats), file, pickle.HIGHEST_PROTOCOL)


def _checked(found: Any) -> dict[str, Any]:
    stats: dict[str, Any] = {}
    for name in _SERIES:
        stats[name] = {
            int(at): (_text(operator), float(megabytes))
            for at, (operator, megabytes) in found[name].items()
        }
    stats["markers"] = {_text(name): int(at) for name, at in found["markers"].items()}
    stats["num_alloc_retries"] = int(found["num_alloc_retries"])
    # The original has none.
    start = found.get("allocated_at_start")
    stats["allocated_at_start"] = None if start is None else float(start)
    return stats


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a name")
    return value
