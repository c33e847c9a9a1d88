"""Replacements for kernels of Transformer Engine that only allocate: GEMMs, norms, activations.

Each function takes the arguments of the compiled one of the same name and returns tensors of the
same shapes and types, allocated in the same order with the same temporary ones. Values are never
computed. Sees: tensors and the quantizers of Transformer Engine. Talks to: `_core`, which has the
rules about workspaces and casts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from floodmark import _core
from floodmark.plugins._te_casts import kind_of, make, shape_of, sum_of_rows, torch_type

_ACTIVATIONS = ("gelu", "qgelu", "relu", "srelu", "silu")
_GATED = ("glu", "geglu", "qgeglu", "reglu", "sreglu", "swiglu", "situglu")


def _product_shape(a: list[int], transa: bool, b: list[int], transb: bool) -> list[int]:
    rows = [b[-1]] if transb else b[:-1]
    return [*rows, math.prod(a[:-1]) if transa else a[-1]]


def _is_quantized(tensor: Any) -> bool:
    from transformer_engine.pytorch.quantized_tensor import QuantizedTensorStorage

    return isinstance(tensor, QuantizedTensorStorage)


def _element_type(tensor: Any) -> torch.dtype:
    dtype = getattr(tensor, "_dtype", None)
    return dtype if isinstance(dtype, torch.dtype) else torch_type(tensor.dtype)


def generic_gemm(
    A: Any,
    transA: bool,
    B: Any,
    transB: bool,
    D: Any,
    quantizer: Any,
    output_dtype: Any,
    bias: Any,
    bias_type: Any,
    gelu: bool,
    gelu_in: Any,
    grad: bool,
    workspace: Any,
    *_: Any,
    extra_output: Any = None,
    **__: Any,
) -> list[Any]:
    """A matrix product, optionally with bias, GELU and cast."""
    shape = _product_shape(shape_of(A), transA, shape_of(B), transB)
    device = workspace.device
    dtype = torch_type(output_dtype) if output_dtype is not None else _element_type(A)
    if D is None:
        D = make(quantizer, shape, dtype, device)
    low = _is_quantized(A) or _is_quantized(B)
    high = None
    if not kind_of(quantizer).is_cast_by_product(low):
        high = torch.empty(shape, dtype=dtype, device=device)
    bias_grad = None
    if bias is not None:
        if grad:
            element = dtype if high is not None else _element_type(D)
            bias_grad = torch.empty(shape_of(B)[-1], dtype=element, device=device)
        else:
            bias = bias.contiguous()
    before_gelu = None
    if gelu and not grad:
        before_gelu = torch.empty(
            shape, dtype=torch_type(bias_type) if low else dtype, device=device
        )
    return [D, bias_grad, before_gelu, extra_output]


def te_general_grouped_gemm(
    A: Sequence[Any],
    transa: bool,
    B: Sequence[Any],
    transb: bool,
    D: Sequence[Any] | None,
    D_type: Any,
    m_splits: Sequence[int],
    bias: Any,
    *_: Any,
    **__: Any,
) -> Any:
    """One product for each group."""
    if D is None:
        for a, b in zip(A, B, strict=True):
            shape = _product_shape(shape_of(a), transa, shape_of(b), transb)
            torch.empty(shape, dtype=torch_type(D_type), device=a.device)
    return bias


def _activation(divisor: int) -> Callable[..., Any]:
    def forward(input: Any, quantizer: Any, *_: Any, **__: Any) -> Any:
        source = input.contiguous()
        shape = shape_of(source)
        shape[-1] //= divisor
        out = make(quantizer, shape, source.dtype, source.device)
        _cast_after(quantizer, shape, source)
        return out

    return forward


def _cast_after(quantizer: Any, shape: Sequence[int], like: Any) -> Any:
    """The result before the cast, for a kernel that does not cast."""
    if kind_of(quantizer).is_cast_by_activation():
        return None
    return torch.empty(list(shape), dtype=like.dtype, device=like.device)


def _activation_backward(grad: Any, fwd_input: Any, quantizer: Any, *_: Any, **__: Any) -> Any:
    grad, fwd_input = grad.contiguous(), fwd_input.contiguous()
    out = make(quantizer, shape_of(fwd_input), fwd_input.dtype, fwd_input.device)
    _cast_after(quantizer, shape_of(fwd_input), fwd_input)
    return out


def _activation_and_bias_backward(grad: Any, fwd_input: Any, quantizer: Any) -> list[Any]:
    grad, fwd_input = grad.contiguous(), fwd_input.contiguous()
    shape = shape_of(fwd_input)
    out = make(quantizer, shape, grad.dtype, grad.device)
    high = out if quantizer is None else _cast_after(quantizer, shape, grad)
    if high is not None:
        return [sum_of_rows(high), out]
    return [torch.empty(shape[-1], dtype=grad.dtype, device=grad.device), out]


def _rows(tensor: Any) -> int:
    return math.prod(shape_of(tensor)[:-1])


def _norm(input: Any, ln_out: Any, quantizer: Any, otype: Any) -> Any:
    out = ln_out
    if out is None:
        out = make(quantizer, shape_of(input), otype, input.device)
    if not kind_of(quantizer).is_cast_by_norm():
        torch.empty(shape_of(input), dtype=torch_type(otype), device=input.device)
    return out


def layernorm_fwd(
    input: Any,
    weight: Any,
    bias: Any,
    eps: float,
    ln_out: Any,
    quantizer: Any,
    otype: Any,
    sm_margin: int,
    zero_centered_gamma: bool,
) -> list[Any]:
    """LayerNorm: the output, the means and the reciprocal deviations."""
    mean = torch.empty(_rows(input), dtype=torch.float32, device=input.device)
    deviation = torch.empty(_rows(input), dtype=torch.float32, device=input.device)
    return [_norm(input, ln_out, quantizer, otype), mean, deviation]


def rmsnorm_fwd(
    input: Any,
    weight: Any,
    eps: float,
    ln_out: Any,
    quantizer: Any,
    otype: Any,
    sm_margin: int,
    zero_centered_gamma: bool,
) -> list[Any]:
    """RMSNorm: the output, nothing, the reciprocal deviations."""
    deviation = torch.empty(_rows(input), dtype=torch.float32, device=input.device)
    return [_norm(input, ln_out, quantizer, otype), None, deviation]


def _norm_backward_workspace(norm: _core.TeNorm, x: Any) -> Any:
    """Partial sums of the weights' gradients."""
    processors = torch.cuda.get_device_properties(x.device).multi_processor_count
    sizes = norm.backward_workspace(_rows(x), shape_of(x)[-1], processors)
    return torch.empty(sizes, dtype=torch.float32, device=x.device)


def layernorm_bwd(dz: Any, x: Any, mu: Any, rsigma: Any, gamma: Any, *_: Any) -> list[Any]:
    """Gradients of the input, the weight and the bias."""
    dz, x, gamma = dz.contiguous(), x.contiguous(), gamma.contiguous()
    grads = [torch.empty_like(x), torch.empty_like(gamma), torch.empty_like(gamma)]
    _norm_backward_workspace(_core.TeNorm.LAYER, x)
    return grads


def rmsnorm_bwd(dz: Any, x: Any, rsigma: Any, gamma: Any, *_: Any) -> list[Any]:
    """Gradients of the input and the weight."""
    dz, x, gamma = dz.contiguous(), x.contiguous(), gamma.contiguous()
    grads = [torch.empty_like(x), torch.empty_like(gamma)]
    _norm_backward_workspace(_core.TeNorm.RMS, x)
    return grads


def rmsnorm_bwd_add(dz: Any, x: Any, add: Any, rsigma: Any, gamma: Any, *_: Any) -> list[Any]:
    """`rmsnorm_bwd` whose first gradient is added to another."""
    return rmsnorm_bwd(dz, x, rsigma, gamma)


def swap_first_dims(tensor: Any, *, out: Any = None) -> Any:
    """A copy with the first two dimensions exchanged."""
    first, second, *rest = shape_of(tensor)
    if out is not None:
        return out
    return torch.empty([second, first, *rest], dtype=tensor.dtype, device=tensor.device)


def multi_tensor_l2norm(
    chunk_size: int, noop_flag: Any, tensor_lists: Any, per_tensor: bool = False, *_: Any
) -> tuple[Any, Any]:
    """The norm of all tensors, optionally also of each one."""
    first = tensor_lists[0]
    count = len(first) if per_tensor else 0
    made = (torch.empty(size, dtype=torch.float32, device=first[0].device) for size in (1, count))
    one, each = made
    return one, each


def multi_tensor_unscale_l2norm(
    chunk_size: int, noop_flag: Any, tensor_lists: Any, inv_scale: Any, per_tensor: bool = False
) -> tuple[Any, Any]:
    """`multi_tensor_l2norm` of unscaled tensors."""
    return multi_tensor_l2norm(chunk_size, noop_flag, tensor_lists, per_tensor)


def _in_place(*_: Any, **__: Any) -> None:
    """Writes to its arguments; allocates nothing."""


_WRITES = (
    "compute_amax",
    "fused_amax_and_scale_update_after_reduction",
    "fp8_block_scaling_compute_partial_amax",
    "fp8_block_scaling_partial_cast",
    "mxfp8_scaling_compute_partial_amax",
    "mxfp8_scaling_partial_cast",
    "multi_tensor_adam",
    "multi_tensor_adam_capturable",
    "multi_tensor_adam_capturable_master",
    "multi_tensor_adam_fp8",
    "multi_tensor_adam_param_remainder",
    "multi_tensor_compute_scale_and_scale_inv",
    "multi_tensor_compute_scale_inv_e8m0",
    "multi_tensor_scale",
    "multi_tensor_scale_tensor",
    "multi_tensor_sgd",
    "fused_multi_row_padding",
    "fused_multi_row_unpadding",
    "swizzle_scales_for_gemm_",
    "multi_tensor_swizzle_scales_for_gemm_",
    "multi_tensor_swizzle_scales_for_gemm_unchecked_",
)


def functions() -> dict[str, Callable[..., Any]]:
    """The functions of this module by the extension's names."""
    found: dict[str, Callable[..., Any]] = {
        function.__name__: function
        for function in (
            generic_gemm,
            te_general_grouped_gemm,
            layernorm_fwd,
            layernorm_bwd,
            rmsnorm_fwd,
            rmsnorm_bwd,
            rmsnorm_bwd_add,
            swap_first_dims,
            multi_tensor_l2norm,
            multi_tensor_unscale_l2norm,
        )
    }
    for name in (*_ACTIVATIONS, *_GATED):
        found[name] = _activation(2 if name in _GATED else 1)
        found[f"d{name}"] = _activation_backward
        if name in _ACTIVATIONS:
            found[f"dbias_d{name}"] = _activation_and_bias_backward
    found["clamped_swiglu"] = _activation(2)
    found["clamped_dswiglu"] = _activation_backward
    found.update(dict.fromkeys(_WRITES, _in_place))
    return found
