"""`scaled_dot_product_attention` for a torch without CUDA: calls the kernel that a GPU would run.

A build without CUDA computes the whole attention matrix, which needs far more memory. Sees: shapes
and types. Talks to: `_core`, which chooses the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from floodmark import _core, torch_private

_Kernel = _core.AttentionKernel


class Attention:
    """Calls the operator of the kernel that would run on the GPU."""

    def __init__(self, torch: Any, capability: tuple[int, int]) -> None:
        self._torch = torch
        self._capability = capability
        self._version = torch_private.version(torch)

    def in_place_of(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The function that replaces torch's."""

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
            chosen = _Kernel.MATH
            if query.device.type == "cuda":
                chosen = _Kernel.chosen_for(
                    list(query.shape),
                    list(value.shape),
                    dtype=str(query.dtype).removeprefix("torch."),
                    has_mask=attn_mask is not None,
                    dropout=dropout_p,
                    is_grouped=enable_gqa and query.shape[-3] != key.shape[-3],
                    torch=self._version,
                    capability=self._capability,
                )
            if chosen == _Kernel.MATH:
                named: dict[str, Any] = {"enable_gqa": True} if enable_gqa else {}
                return original(
                    query, key, value, attn_mask, dropout_p, is_causal, scale=scale, **named
                )
            return self._call(
                chosen, query, key, value, self._bias(query, attn_mask), dropout_p, is_causal, scale
            )

        return attend

    def _bias(self, query: Any, mask: Any) -> Any:
        """Convert a boolean mask to an additive one, like torch."""
        if mask is None or mask.dtype != self._torch.bool:
            return mask
        zero = self._torch.zeros((), dtype=query.dtype, device=query.device)
        least = self._torch.full((), float("-inf"), dtype=query.dtype, device=query.device)
        return self._torch.where(mask, zero, least)

    def _call(
        self,
        chosen: _core.AttentionKernel,
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
        if chosen == _Kernel.FLASH:
            return aten._scaled_dot_product_flash_attention(
                query, key, value, dropout, is_causal, scale=scale
            )[0]
        if bias is not None:
            sizes = (*query.shape[:3], key.shape[2])
            bias = bias.expand(sizes)
        kernel = (
            aten._scaled_dot_product_cudnn_attention
            if chosen == _Kernel.CUDNN
            else aten._scaled_dot_product_efficient_attention
        )
        return kernel(query, key, value, bias, needs_sums, dropout, is_causal, scale=scale)[0]
