"""Collectives of host tensors in a world where no other rank runs: return this rank's values.

The phantom runs those of device tensors. Sees: `torch.distributed.distributed_c10d`, whose
functions are wrapped. Knows nothing of stores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from floodmark.world.process_groups import Members
from floodmark.world.replaced_names import Arguments, wrapped

_COLLECTIVES = (
    "all_reduce",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "gather",
    "scatter",
    "all_to_all",
    "all_to_all_single",
)


def wrap_all(c10d: Any) -> None:
    """Wrap the functions that would receive another rank's tensors."""
    host = _Host(c10d)
    for name in _COLLECTIVES:
        function = getattr(c10d, name, None)
        if function is not None:
            setattr(c10d, name, wrapped(function, host.after(getattr(host, name))))


def _is_host(tensor: Any) -> bool:
    return tensor is not None and tensor.device.type == "cpu"


class _Host(Members):
    """Fills host tensors, which torch's fake group does not change."""

    def after(
        self, change: Callable[[Arguments], None]
    ) -> Callable[[Callable[[], Any], Arguments], Any]:
        """Wrap a collective: call it, then change its result."""

        def call(original: Callable[[], Any], arguments: Arguments) -> Any:
            result = original()
            if not self.is_outside(arguments):
                change(arguments)
            return result

        return call

    def _reduce(self, tensor: Any, arguments: Arguments) -> None:
        operation = self._c10d.ReduceOp
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
