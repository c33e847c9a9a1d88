"""The outermost calls of modules, for the changes that they concern.

Sees: `nn.Module.__call__`, while changes are applied. Talks to: the changes, each of which says
which calls it is for. Calls inside a backward pass (recomputation) and calls inside another
module's are left alone. A module that the program deletes is not kept.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import wraps
from typing import Any

from floodmark import torch_private
from floodmark.changes.calls import Calls, calls_of
from floodmark.changes.change import Change


def watch_outermost_calls(torch: Any, changes: Sequence[Change]) -> Callable[[], None]:
    """Prepare and surround the outermost calls, until what is returned is called."""
    module_class = torch.nn.Module
    original = module_class.__call__
    graph_task = torch_private.graph_task(torch)
    thread = threading.local()
    concerned = {
        kind: [one for one in changes if kind in one.calls]
        for kind in (Calls.TRAINING, Calls.INFERENCE)
    }
    #: The changes that are prepared for a module, by its id, as long as it is alive.
    prepared: dict[int, tuple[weakref.ref[Any], set[Change]]] = {}

    def prepare(root: Any, change: Change) -> None:
        key = id(root)
        if key not in prepared:
            prepared[key] = weakref.ref(root, lambda _: prepared.pop(key, None)), set()
        done = prepared[key][1]
        if change not in done:
            done.add(change)
            change.guarded(change.prepare, root, sys._getframe(2))

    @wraps(original)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(thread, "depth", 0) > 0 or graph_task() != -1:
            return original(self, *args, **kwargs)
        chosen = concerned[calls_of(torch, self)]
        if not chosen:
            return original(self, *args, **kwargs)
        for change in chosen:
            prepare(self, change)
        thread.depth = 1
        try:
            with ExitStack() as stack:
                for change in chosen:
                    around = change.guarded(change.around, self)
                    if around is not None:
                        stack.enter_context(around)
                return original(self, *args, **kwargs)
        finally:
            thread.depth = 0

    module_class.__call__ = call

    def undo() -> None:
        prepared.clear()
        if module_class.__call__ is call:
            module_class.__call__ = original

    return undo
