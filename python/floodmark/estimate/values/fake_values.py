"""Computes the values of small fake tensors.

Programs branch on integers and booleans: masks, positions, counts, flags. An operator whose tensors
all have a value runs a second time on the host, on real tensors that no recording counts. Floats
are computed only for small tensors. Sees: calls of operators. Knows nothing of memory.
"""

from __future__ import annotations

from typing import Any

from floodmark import torch_private, torch_private_fakes
from floodmark.estimate.values.host_copies import Move, OwnRandomNumbers, empty_on_host, is_float

#: Tensors with more elements than this are not computed.
MOST_NUMBERS = 1 << 22
#: Floats of more elements than this are not computed: rates, lengths and counters are few.
MOST_FLOATS = 1 << 10

_VALUE = "_floodmark_value"
#: The attribute of a storage to which unknown values were written.
_SPOILT = "_floodmark_is_spoilt"

#: Operators whose results have no defined values.
_EMPTY = ("empty", "new_empty", "uniform", "normal", "rand.", "randn", "bernoulli", "dropout")


class Follow:
    """The known values of fake tensors."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._fake = torch_private_fakes.fake_tensor_class()
        self._random_numbers = OwnRandomNumbers(torch)
        self._leaves = torch_private.trees().tree_leaves

    def value_of(self, tensor: Any) -> Any:
        """The real tensor with the value of a fake tensor, or None."""
        if tensor.numel() == 0:
            with torch_private.outside_modes():
                return empty_on_host(self._torch, tensor.shape, tensor.dtype)
        value = tensor.__dict__.get(_VALUE)
        if value is None:
            value = getattr(tensor, "constant", None)
            return value if value is not None and value.numel() <= MOST_NUMBERS else None
        if getattr(value.untyped_storage(), _SPOILT, False):
            return None
        return value

    def give(self, tensor: Any, value: Any) -> None:
        """Set the value of a fake tensor to a real tensor."""
        if self._is_worth(tensor):
            tensor.__dict__[_VALUE] = value

    def after(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Run an operator on the values of its fake tensors, if all are known."""
        made = [leaf for leaf in self._leaves(result) if isinstance(leaf, self._fake)]
        given = [leaf for leaf in self._leaves((args, kwargs)) if isinstance(leaf, self._fake)]
        name = str(func)
        is_known = all(self.value_of(tensor) is not None for tensor in given)
        is_useful = not any(word in name for word in _EMPTY)
        if not is_known or not is_useful or not all(map(self._is_worth, made)):
            self._spoil(func, made or given)
            return
        try:
            with torch_private.outside_modes(), self._random_numbers.drawn():
                move = Move(self._torch, self.value_of, self._is_fake)
                on_host, named = move.call_on_host(args, kwargs or {})
                real = func(*on_host, **named)
        except Exception:
            # The host has no kernel for it: the result is unknown.
            self._spoil(func, made or given)
            return
        values = [leaf for leaf in self._leaves(real) if isinstance(leaf, self._torch.Tensor)]
        if len(values) == len(made):
            for tensor, value in zip(made, values, strict=True):
                tensor.__dict__[_VALUE] = value

    def _is_worth(self, tensor: Any) -> bool:
        return bool(tensor.numel() <= (MOST_FLOATS if is_float(tensor) else MOST_NUMBERS))

    def _is_fake(self, tensor: Any) -> bool:
        return isinstance(tensor, self._fake)

    def _spoil(self, func: Any, tensors: list[Any]) -> None:
        """An unknown value was written: all tensors of that storage become unknown."""
        schema = torch_private.schema_of(func)
        if schema is None or not schema.is_mutable:
            return
        for tensor in tensors:
            value = tensor.__dict__.pop(_VALUE, None)
            if value is not None:
                setattr(value.untyped_storage(), _SPOILT, True)
