"""Collectives that torch cannot run on tensors without data: each gives back what it was given.

Which these are differs: torch 2.4 has none for fake tensors, later ones lack those of several
tensors at once. Sees: the operators of `c10d`. Knows nothing of groups.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from floodmark import torch_private
from floodmark.world.replaced_names import with_arguments

#: Those whose first argument is what they write to, and which may be asked for a future.
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
    """What answers for which operator."""
    import torch

    found: dict[Any, Callable[..., Any]] = {}
    has_kernel = torch_private.kernel_test(torch)
    for name in torch_private.operator_names(torch):
        if not name.startswith("c10d::") or "." in name:
            continue
        if has_kernel(name, "Meta"):
            continue
        packet = getattr(torch.ops.c10d, name.removeprefix("c10d::"))
        found[packet.default] = _given_back
    return found


def _given_back(func: Any, args: Any, _kwargs: Any) -> Any:
    """The first argument is what is written to; what it holds is not known in any case."""
    results = [
        done().boxed() if str(value.type).endswith("Work") else args[0]
        for value in torch_private.schema_of(func).returns
    ]
    if not results:
        return None
    return results[0] if len(results) == 1 else tuple(results)


def done() -> Any:
    """Work that is done. One is enough for all, and must outlive what C++ makes of it."""
    global _done
    if _done is None:
        bindings = torch_private.c10d_bindings()
        own = getattr(bindings, "FakeWork", None)
        _done = _work()([]) if own is None else own()
    return _done


def with_result(function: Callable[..., Any]) -> Callable[..., Any]:
    """The collective, whose work tells its result to those who ask for its future."""
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

    bindings: Any = torch_private.c10d_bindings()

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
