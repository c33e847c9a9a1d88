"""Collectives that torch cannot run on tensors without data: each returns its argument.

torch 2.4 supports none of them on fake tensors; later versions lack those of several tensors at
once. Sees: the operators of `c10d`. Knows nothing of groups.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from floodmark import torch_private, torch_private_distributed
from floodmark.world.replaced_names import with_arguments

#: Collectives that write to their first argument and whose work may be asked for a future.
WITH_RESULT = (
    "all_reduce",
    "broadcast",
    "reduce",
    "all_gather",
    "all_gather_into_tensor",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "all_to_all",
    "all_to_all_single",
)

_done: Any = None


def answers() -> dict[Any, Callable[..., Any]]:
    """The functions that replace operators."""
    import torch

    found: dict[Any, Callable[..., Any]] = {}
    has_kernel = torch_private.kernel_test(torch)
    for name in torch_private.operator_names(torch):
        if not name.startswith("c10d::") or "." in name:
            continue
        if has_kernel(name, "Meta"):
            continue
        packet = getattr(torch.ops.c10d, name.removeprefix("c10d::"))
        found[packet.default] = _first_argument
    return found


def _first_argument(func: Any, args: Any, _kwargs: Any) -> Any:
    """Return the first argument, which the collective writes; its values are unknown anyway."""
    results = [
        done().boxed() if str(value.type).endswith("Work") else args[0]
        for value in torch_private.schema_of(func).returns
    ]
    if not results:
        return None
    return results[0] if len(results) == 1 else tuple(results)


def done() -> Any:
    """Completed work. One object serves all calls, and must outlive C++'s pointers to it."""
    global _done
    if _done is None:
        bindings = torch_private_distributed.c10d_bindings()
        own = getattr(bindings, "FakeWork", None)
        _done = _work()([]) if own is None else own()
    return _done


def with_result(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a collective so that its work has a future with the result."""
    output = next(iter(inspect.signature(function).parameters))

    def collective(bound: inspect.BoundArguments) -> Any:
        work = function(*bound.args, **bound.kwargs)
        if work is None:
            return None
        result = bound.arguments[output]
        return _work()(result if isinstance(result, list) else [result])

    return with_arguments(function, collective)


@lru_cache(maxsize=1)
def _work() -> Any:
    import torch

    bindings: Any = torch_private_distributed.c10d_bindings()

    class Done(bindings.Work):  # type: ignore[misc]
        """Work with a result: torch's own has none."""

        def __init__(self, result: list[Any]) -> None:
            super().__init__()
            self._result = result

        def wait(self, *_: Any, **__: Any) -> bool:
            return True

        def is_completed(self) -> bool:
            return True

        def is_success(self) -> bool:
            return True

        def result(self) -> list[Any]:
            return self._result

        def get_future(self) -> Any:
            future: Any = torch.futures.Future()
            future.set_result(self._result)
            return future

    return Done
