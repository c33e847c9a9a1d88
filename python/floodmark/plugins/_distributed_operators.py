"""Collectives that torch cannot run on tensors without data: each gives back what it was given.

Which these are differs: torch 2.4 has none for fake tensors, later ones lack those of several
tensors at once. Sees: the operators of `c10d`. Knows nothing of groups.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_done: Any = None


def answers() -> dict[Any, Callable[..., Any]]:
    """What answers for which operator."""
    import torch

    found: dict[Any, Callable[..., Any]] = {}
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith("c10d::") or "." in name:
            continue
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, "Meta"):
            continue
        packet = getattr(torch.ops.c10d, name.removeprefix("c10d::"))
        found[packet.default] = _given_back
    return found


def _given_back(func: Any, args: Any, _kwargs: Any) -> Any:
    """The first argument is what is written to; what it holds is not known in any case."""
    results = [
        done().boxed() if str(value.type).endswith("Work") else args[0]
        for value in func._schema.returns
    ]
    if not results:
        return None
    return results[0] if len(results) == 1 else tuple(results)


def done() -> Any:
    """Work that is done. One is enough for all, and must outlive what C++ makes of it."""
    global _done
    if _done is None:
        _done = _make()
    return _done


def _make() -> Any:
    import torch

    bindings: Any = sys.modules["torch._C._distributed_c10d"]
    own = getattr(bindings, "FakeWork", None)
    if own is not None:
        return own()

    class Done(bindings.Work):  # type: ignore[misc]
        """As torch's own of later versions."""

        def wait(self, *_: Any) -> bool:
            return True

        def is_completed(self) -> bool:
            return True

        def get_future(self) -> Any:
            future: Any = torch.futures.Future()
            future.set_result([])
            return future

    return Done()
