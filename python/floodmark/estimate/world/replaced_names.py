"""Functions that are replaced in every module that has a name for them.

A program may have imported a function by its name before it was replaced, or under another name.
Sees: the modules that are imported. Knows nothing of what the functions do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any


def replace_in_modules(pairs: Iterable[tuple[Any, Any]]) -> None:
    """Put the second of each pair wherever a module has the first.

    Modules of floodmark stay: they have the originals that replacements call.
    """
    replaced = {id(old): (old, new) for old, new in pairs}
    for place, module in list(sys.modules.items()):
        # What stands for a module may be anything.
        if not isinstance(module, ModuleType) or place.startswith("floodmark."):
            continue
        names = vars(module)
        for name, value in list(names.items()):
            pair = replaced.get(id(value))
            if pair is not None and pair[0] is value:
                names[name] = pair[1]


def everywhere(change: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    """Change a module so that those who took a name from it before have the new one, too."""

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
