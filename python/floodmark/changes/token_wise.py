"""Whether a module computes each token alone: what its operators do on the meta device.

A copy of the module runs there, without memory, values or hooks. Each operator that it runs must
treat the last dimension alone: elementwise ones, products with a weight, norms. An operator that is
not known to do that may mix tokens. Sees: the operators of the copy.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from floodmark import torch_private

#: Elementwise operators that torch does not mark as such.
_ELEMENTWISE = {"alias", "bernoulli", "bernoulli_", "copy_", "detach", "leaky_relu"} | {
    "native_dropout",
    "_to_copy",
}
#: New tensors of the same shape.
_LIKE = {"empty_like", "ones_like", "rand_like", "zeros_like"}
#: Which argument has the tokens; the others are weights.
_PRODUCTS = {"mm": 0, "addmm": 1, "linear": 0}
_VIEWS = {"view", "_unsafe_view", "_reshape_alias"}
#: Operators along a dimension, which must be the last one.
_ALONG = {"amax", "amin", "cat", "glu", "linalg_vector_norm", "mean", "slice", "_softmax"} | {
    "split",
    "split_with_sizes",
    "sum",
}
_NORMS = {"native_layer_norm", "_fused_rms_norm"}


@dataclass
class Computation:
    """What a module computes for a batch of tokens."""

    #: The first operator that may mix tokens, or what else speaks against it; empty where nothing.
    refusal: str = ""
    #: The operators and their constants.
    operators: list[tuple[str, str]] = field(default_factory=list)
    is_random: bool = False

    @property
    def products(self) -> int:
        """The number of products with weights."""
        return sum(name in _PRODUCTS for name, _ in self.operators)


def computation_of(module: Any, method: str, tokens: Any, rows: int) -> Computation:
    """What a method computes for these tokens, and whether it does the same for `rows` of them."""
    import torch

    with torch_private.outside_modes(), torch.no_grad():
        try:
            on_meta = _on_meta(torch, module, method)
            found, other = (
                _watched(torch, getattr(on_meta, method), count, tokens)
                for count in (tokens.numel() // tokens.shape[-1], rows)
            )
        except Exception as error:
            kind = type(error).__name__
            return Computation(f"it cannot be followed on the meta device (`{kind}`)")
    if not found.refusal and found.operators != other.operators:
        found.refusal = "what it computes depends on the number of tokens"
    return found


def _on_meta(torch: Any, module: Any, method: str) -> Any:
    """A copy without memory, hooks and values."""
    tensors = (*module.parameters(), *module.buffers())
    memo = {id(one): _like(torch, one, one.shape) for one in tensors}
    for one in module.modules():
        for name, value in vars(one).items():
            if "_hooks" in name and isinstance(value, dict):
                memo[id(value)] = type(value)()
    copied = copy.deepcopy(module, memo)
    for one in copied.modules():
        # The watch of this change; another replacement is of someone else.
        if getattr(vars(one).get(method), "is_watch", False):
            delattr(one, method)
        if "forward" in vars(one):
            raise RuntimeError("its forward is replaced")
    return copied


def _like(torch: Any, tensor: Any, shape: Any) -> Any:
    dtype = torch.float32 if tensor.is_floating_point() else tensor.dtype
    return torch.empty(shape, dtype=dtype, device="meta")


def _watched(torch: Any, forward: Any, count: int, tokens: Any) -> Computation:
    """What is computed for this number of tokens."""
    found = Computation()
    shape = (*[1] * (tokens.dim() - 2), count, tokens.shape[-1])
    given = _like(torch, tokens, shape)
    #: Each is kept, because an id may be used again.
    with_tokens = {id(given): given}

    class Watch(torch_private.dispatch_mode_class()):  # type: ignore[misc]
        def __torch_dispatch__(
            self, operator: Any, _types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = operator(*args, **(kwargs or {}))
            call = _Call(torch, operator, args, kwargs or {})
            rows = [one for one in call.tensors if id(one) in with_tokens]
            found.is_random |= torch.Tag.nondeterministic_seeded in operator.tags
            if rows:
                if not call.is_token_wise(rows, result) and not found.refusal:
                    found.refusal = f"it runs `{call.name}`, which may mix tokens"
                found.operators.append((call.name, call.constants()))
                results = torch_private.trees().tree_leaves(result)
                with_tokens.update((id(one), one) for one in results if torch.is_tensor(one))
            return result

    with Watch():
        result = forward(given)
    if not torch.is_tensor(result) or id(result) not in with_tokens:
        found.refusal = found.refusal or "its result is no tensor of tokens"
    elif result.shape[:-1] != given.shape[:-1]:
        found.refusal = found.refusal or "its result has another number of tokens"
    return found


class _Call:
    """A call of an operator."""

    def __init__(self, torch: Any, operator: Any, args: Any, kwargs: Any) -> None:
        self.name = operator.overloadpacket.__name__
        self._is_pointwise = torch.Tag.pointwise in operator.tags or self.name in _ELEMENTWISE
        self._args = args
        self._values = (args, kwargs)
        self._arguments = {
            one.name: args[at] if at < len(args) else kwargs.get(one.name, one.default_value)
            for at, one in enumerate(torch_private.schema_of(operator).arguments)
        }
        self._is_tensor = torch.is_tensor
        leaves = torch_private.trees().tree_leaves(self._values)
        self.tensors = [one for one in leaves if torch.is_tensor(one)]

    def is_token_wise(self, rows: list[Any], result: Any) -> bool:
        """Whether each token of the result depends on that token alone."""
        leading = rows[0].shape[:-1]
        if any(one.shape[:-1] != leading for one in rows):
            return False
        if self.name in _LIKE:
            return True
        if self._is_pointwise:
            others = [one for one in self.tensors if all(one is not row for row in rows)]
            return all(one.dim() == 0 or one.numel() == one.shape[-1] for one in others)
        if self.name in _PRODUCTS:
            return len(rows) == 1 and self._args[_PRODUCTS[self.name]] is rows[0]
        if self.name in _VIEWS:
            return bool(result.shape[-1:] == rows[0].shape[-1:])
        last = rows[0].dim() - 1
        if self.name in _ALONG:
            dims = self._arguments["dim"]
            dims = dims if isinstance(dims, list | tuple) else [dims]
            keeps = self._arguments.get("keepdim", True)
            return bool(dims) and keeps and all(dim in (-1, last) for dim in dims)
        return self.name in _NORMS and len(self._arguments["normalized_shape"]) == 1

    def constants(self) -> str:
        """All arguments but tensors and their sizes."""
        if self.name in _VIEWS or self.name in _LIKE:
            return ""
        tree_map = torch_private.trees().tree_map
        return repr(tree_map(lambda one: None if self._is_tensor(one) else one, self._values))
