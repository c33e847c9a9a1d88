"""Replaces functions in every module that has imported them.

A program may have imported a function before it was replaced, or under another name. Sees: the
modules that are imported. Knows nothing of what the functions do.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterable
from functools import wraps
from types import ModuleType
from typing import Any

from floodmark import own_code

Arguments = dict[str, Any]


def replace_in_modules(pairs: Iterable[tuple[Any, Any]]) -> None:
    """Replace the first of each pair by the second in all modules.

    Modules of floodmark keep the originals, which the replacements call.
    """
    replaced = {id(old): (old, new) for old, new in pairs}
    for place, module in list(sys.modules.items()):
        # `sys.modules` may contain objects that are not modules.
        if not isinstance(module, ModuleType) or own_code.is_own_module(place):
            continue
        names = vars(module)
        for name, value in list(names.items()):
            pair = replaced.get(id(value))
            if pair is not None and pair[0] is value:
                names[name] = pair[1]


def everywhere(change: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    """Wrap a change of a module so that it also reaches modules that imported names from it."""

    def changed(module: ModuleType) -> None:
        before = dict(vars(module))
        change(module)
        now = vars(module)
        replace_in_modules(
            (old, now[name])
            for name, old in before.items()
            if callable(old) and name in now and now[name] is not old
        )

    return changed


def with_arguments(
    function: Callable[..., Any], call: Callable[[inspect.BoundArguments], Any]
) -> Callable[..., Any]:
    """Replace `function` by `call`, which gets the bound arguments."""
    signature = inspect.signature(function)

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return call(signature.bind(*args, **kwargs))

    return wrapper


def wrapped(
    function: Callable[..., Any], call: Callable[[Callable[[], Any], Arguments], Any]
) -> Callable[..., Any]:
    """Replace `function` by `call`, which gets a call of the original and the arguments by name."""
    signature = inspect.signature(function)
    # A `__torch_function__` mode calls the function again by its name: replace only the outer call.
    running = threading.local()

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if getattr(running, "is_here", False):
            return function(*args, **kwargs)
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            return function(*args, **kwargs)
        bound.apply_defaults()
        running.is_here = True
        try:
            return call(lambda: function(*args, **kwargs), bound.arguments)
        finally:
            running.is_here = False

    return wrapper
