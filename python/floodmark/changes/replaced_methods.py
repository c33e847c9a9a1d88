"""Methods of modules that a change replaces, so that modules may still be copied and saved.

A function in the place of a method would compute with the weights of the module that it was made
for, also in a copy of that module. A bound method is bound to the copy, and one that is saved is
that of the class. Sees: modules. Talks to: the change, which undoes it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import MethodType
from typing import Any

from floodmark.recording.undoable import Undoable


def replace_method(
    change: Undoable, module: Any, name: str, around: Callable[[Any], Callable[..., Any]]
) -> Any:
    """Call `around(method)` in place of a method, with that of the module that is called; returns
    what is there now."""
    before = getattr(module, name)
    if getattr(before, "__self__", None) is not module:
        # A function of the program: copies of the module have the same.
        @wraps(before)
        def function(*args: Any, **kwargs: Any) -> Any:
            return around(before)(*args, **kwargs)

        change.replace(module, name, function)
        return function
    inner = before.__func__

    @wraps(inner)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return around(MethodType(inner, self))(*args, **kwargs)

    return bind(change, module, name, method)


def bind(change: Undoable, module: Any, name: str, method: Callable[..., Any]) -> Any:
    """Make a function, whose first argument is the module, one of its methods."""
    # A saved method is found again by its name.
    method.__name__ = name
    bound = MethodType(method, module)
    change.replace(module, name, bound)
    return bound


def has_method_of_its_own(module: Any, name: str) -> bool:
    """Whether a method of a module is not that of its class, as it is in one that was loaded."""
    own = vars(module).get(name)
    is_loaded = getattr(own, "__self__", None) is module
    return own is not None and not (is_loaded and own.__func__ is getattr(type(module), name))
