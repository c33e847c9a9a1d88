"""Replacements for kernels of Transformer Engine that only allocate: attention, softmax, rotary
positions.

Also the functions whose results decide which attention runs. Sees: tensors and the enumerations of
Transformer Engine. Talks to: `_core`, which has the rules about buffers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from floodmark import _core
from floodmark.plugins._te_casts import kind_of, make, shape_of, torch_type

#: The library versions of the newest Transformer Engine; only compared with minimums.
_CUDNN_VERSION = 91900
_CUBLAS_LT_VERSION = 130100
_STREAMS = 4

#: `transformer_engine::DType` by number.
_HALF_TYPES, _FP8_TYPES = (5, 6), (7, 8)
_NO_BACKEND = -1
#: Members of `NVTE_Fused_Attn_Backend`, by the kernel that runs.
_BACKENDS = ((_core.TeFusedAttention.HALF, 1), (_core.TeFusedAttention.FLOAT8, 2))


def get_fused_attn_backend(*args: Any, **kwargs: Any) -> tuple[int, str]:
    """The cuDNN kernel for an attention of these sizes."""
    asked = args[0] if len(args) == 1 else None
    if asked is None:
        return _NO_BACKEND, "these arguments are not known"
    chosen = _core.TeFusedAttention.chosen_for(
        asked.head_dim_qk,
        asked.head_dim_v,
        is_half=int(asked.qkv_dtype) in _HALF_TYPES,
        is_float8=int(asked.qkv_dtype) in _FP8_TYPES,
        capability=torch.cuda.get_device_capability(),
    )
    for kernel, backend in _BACKENDS:
        if chosen == kernel:
            return backend, ""
    if chosen == _core.TeFusedAttention.UNALIGNED_HEAD:
        return _NO_BACKEND, "the head dimension is no multiple of 8"
    return _NO_BACKEND, "cuDNN has no kernel for this type or head dimension"


def _layout(member: Any) -> _core.TeLayout:
    return _core.TeLayout(str(member.name))


def _adds_bias(bias_type: Any) -> bool:
    return bias_type.name not in ("NVTE_NO_BIAS", "NVTE_ALIBI")


def _has_offset(softmax_type: Any) -> bool:
    return bool(softmax_type.name != "NVTE_VANILLA_SOFTMAX")


def fused_attn_fwd(
    max_seqlen_q: int,
    max_seqlen_kv: int,
    is_training: bool,
    attn_scale: float,
    p_dropout: float,
    set_zero: bool,
    qkv_layout: Any,
    o_format: Any,
    qkv_scale_inv_format: Any,
    bias_type: Any,
    attn_mask_type: Any,
    softmax_type: Any,
    window_size: Any,
    bottom_right_diagonal: bool,
    cu_seqlens_q: Any,
    cu_seqlens_kv: Any,
    Q: Any,
    K: Any,
    V: Any,
    fake_dtype: Any,
    cu_seqlens_q_padded: Any,
    cu_seqlens_kv_padded: Any,
    page_table_k: Any,
    page_table_v: Any,
    s_quantizer: Any,
    o_quantizer: Any,
    Bias: Any,
    SoftmaxOffset: Any,
    rng_gen: Any,
    rng_elts_per_thread: int,
    return_max_logit: bool,
    cuda_graph: bool,
) -> list[Any]:
    """The output, and for backward log-sum-exp, the random state, bias and offset."""
    layout, queries, device = _layout(qkv_layout), shape_of(Q), Q.device
    shape = layout.output(str(o_format.name), queries, shape_of(V)[-1])
    is_cast = kind_of(o_quantizer).is_cast_by_attention()
    out = make(o_quantizer if is_cast else None, shape, fake_dtype, device)
    state = torch.empty(2, dtype=torch.int64, device=device)
    rows = layout.softmax_sums(queries, max_seqlen_q)
    kept = [torch.empty(rows, dtype=torch.float32, device=device)]
    if return_max_logit:
        kept.append(torch.empty(rows, dtype=torch.float32, device=device))
    kept.append(state)
    if Bias is not None and _adds_bias(bias_type):
        kept.append(Bias)
    if SoftmaxOffset is not None and _has_offset(softmax_type):
        kept.append(SoftmaxOffset)
    return [out, *kept]


def fused_attn_bwd(
    max_seqlen_q: int,
    max_seqlen_kv: int,
    attn_scale: float,
    p_dropout: float,
    set_zero: bool,
    qkv_layout: Any,
    o_format: Any,
    do_format: Any,
    dqkv_layout: Any,
    qkv_scale_inv_format: Any,
    do_scale_inv_format: Any,
    bias_type: Any,
    attn_mask_type: Any,
    softmax_type: Any,
    window_size: Any,
    bottom_right_diagonal: bool,
    deterministic: bool,
    cu_seqlens_q: Any,
    cu_seqlens_kv: Any,
    Q: Any,
    K: Any,
    V: Any,
    O: Any,  # noqa: E741
    dO: Any,
    fake_dtype: Any,
    Aux_CTX_Tensors: Sequence[Any],
    *rest: Any,
) -> list[Any]:
    """Gradients of queries, keys, values, bias and offset."""
    quantizer = rest[4] if len(rest) > 4 else None
    layout, device = _layout(qkv_layout), Q.device
    is_cast = kind_of(quantizer).is_cast_by_attention()
    element = torch.uint8 if is_cast else torch_type(fake_dtype)
    grads: list[Any] = []
    shapes = (shape_of(Q), shape_of(K), shape_of(V))
    for sizes, axis in layout.gradients(_layout(dqkv_layout), *shapes):
        whole = torch.empty(sizes, dtype=element, device=device)
        parts = range(1 if axis is None else sizes[axis])
        grads += [whole if axis is None else whole.select(axis, part) for part in parts]
    if is_cast:
        grads = [make(quantizer, shape_of(one), fake_dtype, device, data=one) for one in grads]
    workspace = layout.backward_workspace(shape_of(Q), shape_of(K), element.itemsize)
    torch.empty(workspace, dtype=torch.uint8, device=device)
    bias = offset = None
    if _adds_bias(bias_type):
        bias = torch.empty(shape_of(Aux_CTX_Tensors[-1]), dtype=element, device=device)
    if _has_offset(softmax_type):
        heads = layout.heads(shape_of(Q))
        offset = torch.empty([1, heads, 1, 1], dtype=torch.float32, device=device)
    return [*grads, bias, offset]


def _softmax(input: Any, *_: Any) -> Any:
    return torch.empty_like(input, memory_format=torch.contiguous_format)


def _softmax_backward(grad: Any, results: Any, *_: Any) -> Any:
    return torch.empty_like(grad.contiguous())


def fused_rope_forward(input: Any, *_: Any) -> Any:
    """Rotary positions applied to a copy."""
    return torch.empty(shape_of(input), dtype=input.dtype, device=input.device)


def fused_qkv_rope_forward(
    qkv_input: Any,
    q_freqs: Any,
    k_freqs: Any,
    start_positions: Any,
    qkv_split_arg_list: Sequence[int],
    *_: Any,
) -> tuple[Any, Any, Any]:
    """Queries, keys and values of one tensor, the first two rotated."""
    first, second, heads, _whole = shape_of(qkv_input)
    q, k, v = qkv_split_arg_list
    options = {"dtype": qkv_input.dtype, "device": qkv_input.device}
    return (
        torch.empty([first, second, heads * q // k, k], **options),
        torch.empty([first, second, heads, k], **options),
        torch.empty([first, second, heads, v], **options),
    )


def fused_qkv_rope_backward(
    q_grad_out: Any,
    k_grad_out: Any,
    v_grad_out: Any,
    q_freqs: Any,
    k_freqs: Any,
    qkv_split_arg_list: Sequence[int],
    *_: Any,
) -> Any:
    """The gradient of the combined tensor."""
    first, second, q_heads, width = shape_of(q_grad_out)
    heads = q_heads + shape_of(k_grad_out)[2] + shape_of(v_grad_out)[2]
    whole = sum(qkv_split_arg_list)
    shape = [first, second, heads * width // whole, whole]
    return torch.empty(shape, dtype=q_grad_out.dtype, device=q_grad_out.device)


def dropout_fwd(input: Any, dropout_probability: float, out: Any = None) -> list[Any]:
    """Dropout with one bit of mask for each element."""
    if out is None:
        out = torch.empty(shape_of(input), dtype=input.dtype, device=input.device)
    mask = _core.te_dropout_mask_bytes(math.prod(shape_of(input)))
    return [out, torch.empty(mask, dtype=torch.uint8, device=input.device)]


def dropout_bwd(
    grad_output: Any, mask: Any, dropout_probability: float, grad_input: Any = None
) -> Any:
    """The gradient of dropout."""
    return torch.empty_like(grad_output) if grad_input is None else grad_input


def get_cudnn_version() -> int:
    """The version as cuDNN encodes it."""
    return _CUDNN_VERSION


def get_cublasLt_version() -> int:
    """The version as cuBLASLt encodes it."""
    return _CUBLAS_LT_VERSION


def get_num_cublas_streams() -> int:
    """The number of concurrent products of a group, each with its own workspace."""
    return _STREAMS


def functions() -> dict[str, Callable[..., Any]]:
    """The functions of this module by the extension's names."""
    found: dict[str, Callable[..., Any]] = {
        function.__name__: function
        for function in (
            get_fused_attn_backend,
            fused_attn_fwd,
            fused_attn_bwd,
            fused_rope_forward,
            fused_qkv_rope_forward,
            fused_qkv_rope_backward,
            dropout_fwd,
            dropout_bwd,
            get_cudnn_version,
            get_cublasLt_version,
            get_num_cublas_streams,
        )
    }
    found["fused_rope_backward"] = fused_rope_forward
    for mask in ("", "_masked", "_upper_triang_masked", "_aligned_causal_masked"):
        found[f"scaled{mask}_softmax_forward"] = _softmax
        found[f"scaled{mask}_softmax_backward"] = _softmax_backward
    return found
