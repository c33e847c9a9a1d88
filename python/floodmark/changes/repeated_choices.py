"""Choices that a change repeats where a backward pass computes something again.

A checkpoint needs the operators of the forward pass in its recomputation. A change that is given up
between the two must still do there what it did before. Sees: nothing of torch. Talks to: the
changes that checkpoint, and those whose choice may change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any

_thread = threading.local()


def with_same_choices(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with the choices of its first call in all later ones."""
    choices: dict[Hashable, Any] = {}

    @wraps(function)
    def repeated(*args: Any, **kwargs: Any) -> Any:
        outer = getattr(_thread, "choices", None)
        _thread.choices = choices
        try:
            return function(*args, **kwargs)
        finally:
            _thread.choices = outer

    return repeated


def choice(name: Hashable, value: Any) -> Any:
    """The value, or what was chosen under this name when the same was computed before."""
    choices: dict[Hashable, Any] | None = getattr(_thread, "choices", None)
    return value if choices is None else choices.setdefault(name, value)
