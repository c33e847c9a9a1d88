"""Measures the workspaces of kernels by running their host code on the phantom.

cuDNN chooses a convolution's workspace, and no rule predicts it closely. With the phantom's
library, torch's own code runs on the simulated device: it plans and allocates, but computes
nothing. Each call is measured once for its shapes. Sees: calls of operators. Talks to: torch's
counters.
"""

from __future__ import annotations

from typing import Any

from floodmark import torch_private, torch_private_fakes

#: Operators whose workspaces are measured.
_NAMES = ("convolution", "convolution_backward", "_cudnn_rnn", "_cudnn_rnn_backward")


class Kernels:
    """Measures calls of torch's operators; caches the results."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._fake = torch_private_fakes.fake_tensor_class()
        self._map = torch_private.trees().tree_map
        self._leaves = torch_private.trees().tree_leaves
        self._known: dict[Any, int | None] = {}

    def is_measured(self, func: Any) -> bool:
        """Whether the workspace of this operator is measured."""
        schema = torch_private.schema_of(func)
        return schema is not None and schema.name.removeprefix("aten::") in _NAMES

    def bytes_of(self, func: Any, args: Any, kwargs: Any) -> int | None:
        """The peak of a call without its results, in bytes; None if it is unknown."""
        leaves = self._leaves((args, kwargs))
        if not any(isinstance(leaf, self._fake) and leaf.device.type == "cuda" for leaf in leaves):
            return None
        flags = self._torch.backends.cudnn
        key = (func, flags.benchmark, flags.deterministic, *map(self._key, leaves))
        if key not in self._known:
            self._known[key] = self._measure(func, args, kwargs or {})
        return self._known[key]

    def _key(self, leaf: Any) -> Any:
        if isinstance(leaf, self._torch.Tensor):
            return leaf.dtype, tuple(leaf.shape), leaf.stride()
        return leaf

    def _measure(self, func: Any, args: Any, kwargs: Any) -> int | None:
        try:
            with torch_private.outside_modes(), self._torch.no_grad():
                self._torch.cuda.init()
                real_args, real_kwargs = self._map(self._real, (args, kwargs))
                device = self._torch.cuda.current_device()
                torch_private.reset_peak(self._torch, device)
                before = torch_private.allocated_bytes(self._torch, device)["current"]
                results = func(*real_args, **real_kwargs)
                after = torch_private.allocated_bytes(self._torch, device)
                del results
                return max(0, after["peak"] - after["current"]) if after["current"] >= before else 0
        except Exception:
            # The phantom does not support the call: the rules apply.
            return None

    def _real(self, leaf: Any) -> Any:
        if not isinstance(leaf, self._fake):
            return leaf
        return self._torch.empty_strided(
            tuple(leaf.shape), leaf.stride(), dtype=leaf.dtype, device=leaf.device
        )
