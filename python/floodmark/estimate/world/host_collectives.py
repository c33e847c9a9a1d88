"""What collectives return when no other rank runs: what this rank has.

On a device that is the phantom's business. Here are tensors of the host and Python objects. Sees:
`torch.distributed.distributed_c10d`, whose functions are wrapped. Knows nothing of stores.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

from floodmark import torch_private

Arguments = dict[str, Any]


def wrap_all(c10d: Any, note: Callable[[str], None]) -> None:
    """Put wrappers around the functions that would bring another rank's values."""
    host = _Host(c10d)
    for name in ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor", "gather"):
        _wrap(c10d, name, after=getattr(host, name))
    for name in ("scatter", "all_to_all", "all_to_all_single"):
        _wrap(c10d, name, after=getattr(host, name))
    objects = _Objects(c10d, note)
    for name in ("broadcast_object_list", "scatter_object_list", "gather_object"):
        _wrap(c10d, name, instead=getattr(objects, name))
    for name in ("recv_object_list", "monitored_barrier"):
        _wrap(c10d, name, instead=getattr(objects, name))


def _wrap(
    c10d: Any,
    name: str,
    *,
    after: Callable[[Arguments], None] | None = None,
    instead: Callable[[Callable[[], Any], Arguments], Any] | None = None,
) -> None:
    function = getattr(c10d, name, None)
    if function is None:
        return
    signature = inspect.signature(function)
    # A mode of `__torch_function__` calls by name what it was called for: once is enough.
    running = threading.local()

    def call(arguments: Arguments, original: Callable[[], Any]) -> Any:
        if instead is not None:
            return instead(original, arguments)
        result = original()
        if after is not None and not torch_private.is_outside(c10d, arguments.get("group")):
            after(arguments)
        return result

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
            return call(bound.arguments, lambda: function(*args, **kwargs))
        finally:
            running.is_here = False

    setattr(c10d, name, wrapper)


def _is_host(tensor: Any) -> bool:
    return tensor is not None and tensor.device.type == "cpu"


class _Groups:
    """Ranks of a group, whichever way a function got them."""

    def __init__(self, c10d: Any) -> None:
        self.c10d = c10d

    def size(self, arguments: Arguments) -> int:
        return int(self.c10d.get_world_size(arguments.get("group")))

    def rank(self, arguments: Arguments) -> int:
        return int(self.c10d.get_rank(arguments.get("group")))

    def is_outside(self, arguments: Arguments) -> bool:
        """Whether this rank is none of the group."""
        return torch_private.is_outside(self.c10d, arguments.get("group"))

    def is_it(self, arguments: Arguments, side: str) -> bool:
        """Whether this rank is the one that `src` or `dst` (or `group_src` …) names."""
        in_group = arguments.get(f"group_{side}")
        if in_group is not None:
            return bool(in_group == self.rank(arguments))
        return bool((arguments.get(side) or 0) == self.c10d.get_rank())


class _Host(_Groups):
    """Tensors of the host: torch's fake group leaves them as they are."""

    def _reduce(self, tensor: Any, arguments: Arguments) -> None:
        operation = self.c10d.ReduceOp
        if arguments.get("op") == operation.SUM:
            tensor.mul_(self.size(arguments))
        elif arguments.get("op") == operation.PRODUCT:
            tensor.pow_(self.size(arguments))

    def all_reduce(self, arguments: Arguments) -> None:
        if _is_host(arguments["tensor"]):
            self._reduce(arguments["tensor"], arguments)

    def reduce(self, arguments: Arguments) -> None:
        if _is_host(arguments["tensor"]) and self.is_it(arguments, "dst"):
            self._reduce(arguments["tensor"], arguments)

    def reduce_scatter(self, arguments: Arguments) -> None:
        if _is_host(arguments["output"]):
            arguments["output"].copy_(arguments["input_list"][self.rank(arguments)])
            self._reduce(arguments["output"], arguments)

    def reduce_scatter_tensor(self, arguments: Arguments) -> None:
        output = arguments["output"]
        if _is_host(output):
            shares = arguments["input"].reshape(self.size(arguments), *output.shape)
            output.copy_(shares[self.rank(arguments)])
            self._reduce(output, arguments)

    def gather(self, arguments: Arguments) -> None:
        if _is_host(arguments["tensor"]):
            for share in arguments.get("gather_list") or ():
                share.copy_(arguments["tensor"])

    def scatter(self, arguments: Arguments) -> None:
        shares = arguments.get("scatter_list")
        if _is_host(arguments["tensor"]) and shares:
            arguments["tensor"].copy_(shares[self.rank(arguments)])

    def all_to_all(self, arguments: Arguments) -> None:
        pairs = zip(arguments["output_tensor_list"], arguments["input_tensor_list"], strict=False)
        for output, given in pairs:
            if _is_host(output) and output.shape == given.shape:
                output.copy_(given)

    def all_to_all_single(self, arguments: Arguments) -> None:
        output, given = arguments["output"], arguments["input"]
        if _is_host(output) and output.shape == given.shape:
            output.copy_(given)


class _Objects(_Groups):
    """Python objects: those of other ranks are ours, where we have one."""

    def __init__(self, c10d: Any, note: Callable[[str], None]) -> None:
        super().__init__(c10d)
        self._note = note

    def broadcast_object_list(self, call: Callable[[], Any], arguments: Arguments) -> Any:
        if self.is_outside(arguments) or self.is_it(arguments, "src"):
            return call()
        self._note("objects that another rank would have broadcast were left as they were")
        return None

    def scatter_object_list(self, call: Callable[[], Any], arguments: Arguments) -> Any:
        if self.is_outside(arguments):
            return call()
        shares = arguments.get("scatter_object_input_list")
        if shares and self.is_it(arguments, "src"):
            arguments["scatter_object_output_list"][0] = shares[self.rank(arguments)]
        else:
            self._note("an object that another rank would have scattered was left as it was")
        return None

    def gather_object(self, call: Callable[[], Any], arguments: Arguments) -> Any:
        shares = arguments.get("object_gather_list")
        if shares is None or self.is_outside(arguments):
            return call()
        group = arguments.get("group")
        return self.c10d.all_gather_object(shares, arguments["obj"], group=group)

    def recv_object_list(self, call: Callable[[], Any], arguments: Arguments) -> Any:
        if self.is_outside(arguments):
            return call()
        sender = arguments.get("src", arguments.get("group_src"))
        raise RuntimeError(
            f"rank {self.c10d.get_rank()} waits for objects of rank {sender}, which does not run"
            "\n\n"
            "hint: in a pipeline, give `PipelineStage` its `input_args` and `output_args`"
        )

    def monitored_barrier(self, _call: Callable[[], Any], _arguments: Arguments) -> None:
        """Every other rank has been there already."""
