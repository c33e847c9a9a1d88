"""What Python remembers of a process in which there was no GPU, for one that gets it later.

Sees: modules that are imported already. Knows nothing of the phantom.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any


def everywhere(change: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    """Change a module so that those who took a name from it before have the new one, too."""

    def changed(module: ModuleType) -> None:
        before = dict(vars(module))
        change(module)
        now = vars(module)
        replaced = {
            id(old): now[name]
            for name, old in before.items()
            if callable(old) and name in now and now[name] is not old
        }
        # `before` keeps the old ones alive, so no number can be another's.
        _replace(replaced, [m for m in list(sys.modules.values()) if m is not module])

    return changed


def _replace(replaced: dict[int, Any], modules: list[ModuleType]) -> None:
    for module in modules:
        # What stands for a module may be anything.
        if not isinstance(module, ModuleType):
            continue
        for name, value in list(vars(module).items()):
            if id(value) in replaced:
                with contextlib.suppress(Exception):
                    setattr(module, name, replaced[id(value)])
