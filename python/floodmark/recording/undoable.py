"""Patches of attributes, environment variables and hooks that can be undone.

The base of the plugins of an estimate and of the changes of a program. Sees: its arguments. Knows
nothing of torch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

_MISSING = object()


class Undoable:
    """A set of patches; `undo_all` undoes the last one first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def replace(self, owner: Any, name: str, value: Any) -> Any:
        """Set `owner.name` to `value` until the end; returns the previous value, or None."""
        own = vars(owner).get(name, _MISSING)
        before = getattr(owner, name, None)
        setattr(owner, name, value)
        put = vars(owner).get(name, _MISSING)

        def restore() -> None:
            if vars(owner).get(name, _MISSING) is not put:
                # Another tool has replaced it since.
                return
            if own is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, own)

        self._undo.append(restore)
        return before

    def replace_in(self, owners: Iterable[Any], values: Mapping[str, Any]) -> None:
        """Set each of `values` in every owner that has its name, until the end."""
        for name, value in values.items():
            for owner in owners:
                if hasattr(owner, name):
                    self.replace(owner, name, value)

    def set_variable(self, name: str, value: str) -> None:
        """Set a variable of the environment until the end."""
        before = os.environ.get(name)
        os.environ[name] = value

        def restore() -> None:
            if before is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = before

        self._undo.append(restore)

    def on_exit(self, undo: Callable[[], None]) -> None:
        """Call `undo` at the end, before the functions that were registered earlier."""
        self._undo.append(undo)

    def undo_all(self) -> Exception | None:
        """Undo every patch; returns the first failure, and undoes the others nevertheless."""
        failure: Exception | None = None
        while self._undo:
            try:
                self._undo.pop()()
            except Exception as caught:
                failure = failure or caught
        return failure
