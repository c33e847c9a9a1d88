"""The outermost calls of modules that are trained.

Sees: `nn.Module.__call__`, while changes are applied. Talks to: the changes. Calls inside a
backward pass (recomputation) and calls inside another module's are left alone.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import wraps
from typing import Any

from floodmark import torch_private
from floodmark.changes.change import Change


def watch_outermost_calls(torch: Any, changes: Sequence[Change]) -> Callable[[], None]:
    """Prepare and surround the outermost calls, until what is returned is called."""
    module_class = torch.nn.Module
    original = module_class.__call__
    graph_task = torch_private.graph_task(torch)
    thread = threading.local()
    seen: set[int] = set()
    #: The modules themselves: an id may be used again.
    kept: list[Any] = []

    @wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_inner = getattr(thread, "depth", 0) > 0 or graph_task() != -1
        if is_inner or not torch.is_grad_enabled() or not _is_trained(self):
            return original(self, *args, **kwargs)
        if id(self) not in seen:
            seen.add(id(self))
            kept.append(self)
            frame = sys._getframe(1)
            for change in changes:
                _guarded(change, change.prepare, self, frame)
            del frame
        thread.depth = 1
        try:
            with ExitStack() as stack:
                for change in changes:
                    around = _guarded(change, change.around, self)
                    if around is not None:
                        stack.enter_context(around)
                return original(self, *args, **kwargs)
        finally:
            thread.depth = 0

    module_class.__call__ = call

    def undo() -> None:
        kept.clear()
        if module_class.__call__ is call:
            module_class.__call__ = original

    return undo


def _is_trained(module: Any) -> bool:
    return module.training and any(one.requires_grad for one in module.parameters())


def _guarded(change: Change, call: Callable[..., Any], *args: Any) -> Any:
    """What fails here is given up, and does not stop the program."""
    try:
        return call(*args)
    except Exception as error:
        change.give_up(f"it failed: {error!r}")
        return None
