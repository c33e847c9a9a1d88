"""Patches that undo themselves: attributes, variables of the environment, hooks.

Plugins of an estimate and changes of a program put things in place of others for a while. Sees:
what it is given. Knows nothing of torch.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

_MISSING = object()


class Undoable:
    """The base of what patches and undoes it, the last patch first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def replace(self, owner: Any, name: str, value: Any) -> Any:
        """Put `value` at `owner.name` until the end; returns what was there, or None."""
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
        """Call `undo` at the end; the last one first."""
        self._undo.append(undo)

    def undo_all(self) -> Exception | None:
        """Undo every patch; the first failure. The others are undone all the same."""
        failure: Exception | None = None
        while self._undo:
            try:
                self._undo.pop()()
            except Exception as caught:
                failure = failure or caught
        return failure
