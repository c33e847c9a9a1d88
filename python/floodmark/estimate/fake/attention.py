"""Which attention kernel torch would choose on a GPU, for a torch without CUDA.

A build without CUDA has no say in it and multiplies matrices out, which takes far more memory. The
choice follows what torch was seen to choose. Sees: shapes and types. Knows nothing of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from floodmark import torch_private


class Attention:
    """Chooses, and calls the kernel's operator."""

    def __init__(self, torch: Any, capability: tuple[int, int]) -> None:
        self._torch = torch
        self._capability = capability
        self._version = torch_private.version(torch)

    def choose(
        self,
        query: Any,
        value: Any,
        mask: Any = None,
        dropout: float = 0.0,
        is_grouped: bool = False,
    ) -> str:
        """`cudnn`, `flash`, `efficient` or `math`."""
        torch = self._torch
        kind = query.dtype
        if query.dim() != 4 or kind not in (torch.float16, torch.bfloat16, torch.float32):
            return "math"
        is_half = kind != torch.float32
        size = query.shape[-1]
        if is_half and self._has_cudnn(size, value.shape[-1], dropout):
            return "cudnn"
        if is_half and mask is None and size <= 256 and self._capability >= (8, 0):
            return "flash"
        if is_grouped and (self._version < (2, 12) or is_half):
            return "math"
        return "efficient"

    def _has_cudnn(self, size: int, value_size: int, dropout: float) -> bool:
        """torch takes cuDNN first on Hopper and later, since 2.8."""
        if not (9, 0) <= self._capability < (12, 0) or self._version < (2, 8):
            return False
        if dropout > 0 and self._version >= (2, 12):
            return False
        return size <= 128 and value_size <= 128 and size % 8 == 0 and value_size % 8 == 0

    def standing_for(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """What is called instead of torch's function."""

        def attend(
            query: Any,
            key: Any,
            value: Any,
            attn_mask: Any = None,
            dropout_p: float = 0.0,
            is_causal: bool = False,
            scale: float | None = None,
            enable_gqa: bool = False,
        ) -> Any:
            chosen = "math"
            if query.device.type == "cuda":
                is_grouped = enable_gqa and query.shape[-3] != key.shape[-3]
                chosen = self.choose(query, value, attn_mask, dropout_p, is_grouped)
            if chosen == "math":
                named: dict[str, Any] = {"enable_gqa": True} if enable_gqa else {}
                return original(
                    query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **named
                )
            return self._call(
                chosen, query, key, value, self._bias(query, attn_mask), dropout_p, is_causal, scale
            )

        return attend

    def _bias(self, query: Any, mask: Any) -> Any:
        """A truth becomes a number to be added, as torch does it."""
        if mask is None or mask.dtype != self._torch.bool:
            return mask
        zero = self._torch.zeros((), dtype=query.dtype, device=query.device)
        least = self._torch.full((), float("-inf"), dtype=query.dtype, device=query.device)
        return self._torch.where(mask, zero, least)

    def _call(
        self,
        chosen: str,
        query: Any,
        key: Any,
        value: Any,
        bias: Any,
        dropout: float,
        is_causal: bool,
        scale: float | None,
    ) -> Any:
        aten = self._torch.ops.aten
        needs_sums = any(tensor.requires_grad for tensor in (query, key, value))
        if chosen == "flash":
            return aten._scaled_dot_product_flash_attention(
                query, key, value, dropout, is_causal, scale=scale
            )[0]
        if bias is not None:
            sizes = (*query.shape[:3], key.shape[2])
            bias = bias.expand(sizes)
        kernel = (
            aten._scaled_dot_product_cudnn_attention
            if chosen == "cudnn"
            else aten._scaled_dot_product_efficient_attention
        )
        return kernel(query, key, value, bias, needs_sums, dropout, is_causal, scale=scale)[0]
