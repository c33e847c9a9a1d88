"""Sends Python objects between ranks that are processes.

torch sends objects as tensors of bytes, in several collectives. Its own functions run, so that all
tensors are allocated; the collectives that they call here move any number of bytes. Sees:
`torch.distributed.distributed_c10d`. Talks to: the phantom's library.
"""

from __future__ import annotations

import ctypes
import inspect
import types
from collections.abc import Callable
from functools import wraps
from typing import Any

from floodmark import torch_private_distributed
from floodmark._core import Certainty
from floodmark.world.collectives_over_store import CollectivesOverStore
from floodmark.world.tensor_contents import Content, region_of, write

_FUNCTIONS = (
    "all_gather_object",
    "gather_object",
    "broadcast_object_list",
    "scatter_object_list",
    "send_object_list",
    "recv_object_list",
)


class ObjectsOverStore:
    """Wraps torch's functions for objects so that they reach other processes."""

    def __init__(self, c10d: Any, phantom: Any, collectives: CollectivesOverStore) -> None:
        self._c10d = c10d
        self._phantom = phantom
        self._collectives = collectives.functions(of_objects=True)
        for name in ("isend", "irecv"):
            # `P2POp` accepts only the module's own functions; batches are handled separately.
            self._collectives.pop(name, None)

    def functions(self) -> dict[str, Callable[..., Any]]:
        """The wrappers by the names of the original functions."""
        found = {name: getattr(self._c10d, name, None) for name in _FUNCTIONS}
        return {name: self._with_own_calls(f) for name, f in found.items() if f is not None}

    def _with_own_calls(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with its collectives replaced by ours."""
        inner: Any = inspect.unwrap(function)
        to_tensor = torch_private_distributed.object_to_tensor(self._c10d)
        own_calls = {**self._collectives, to_tensor.__name__: self._known(to_tensor)}

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            names = {**vars(self._c10d), **own_calls}
            own = types.FunctionType(
                inner.__code__, names, inner.__name__, inner.__defaults__, inner.__closure__
            )
            own.__kwdefaults__ = inner.__kwdefaults__
            return own(*args, **kwargs)

        return call

    def _known(self, to_tensor: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap torch's `_object_to_tensor` so that all bytes of its tensors are known."""

        def object_to_tensor(obj: Any, device: Any, *more: Any) -> tuple[Any, ...]:
            on_host = to_tensor(obj, "cpu", *more)
            tensors = tuple(tensor.to(device) for tensor in on_host)
            for tensor, host in zip(tensors, on_host, strict=True):
                if tensor.is_cuda:
                    data = ctypes.string_at(host.data_ptr(), host.nbytes)
                    content = Content(Certainty.KNOWN, data)
                    write(self._phantom.library, region_of(tensor), content)
            return tensors

        return object_to_tensor
