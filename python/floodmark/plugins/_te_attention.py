"""Kernels of Transformer Engine as what they allocate: attention, softmax, rotary positions.

Also the questions about libraries that decide which attention is taken. Sees: tensors and the
layouts of Transformer Engine. Knows nothing of layers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from floodmark.plugins._te_casts import kind_of, make, shape_of, torch_type

#: What the libraries of the newest Transformer Engine come with; only compared with minimums.
_CUDNN_VERSION = 91900
_CUBLAS_LT_VERSION = 130100
_STREAMS = 4

_NO_BACKEND, _F16, _FP8 = -1, 1, 2
_FP8_TYPES = (7, 8)
_HALF_TYPES = (5, 6)


def _name(member: Any) -> str:
    return str(member.name).removeprefix("NVTE_").removeprefix("Paged_KV_")


def _formats(layout: Any) -> tuple[str, str]:
    """How the queries lie, and how the keys: `SBHD`, `BSHD`, `THD` or `BHSD`."""
    parts = [part.replace("3", "").replace("2", "") for part in _name(layout).split("_")]
    return parts[0], parts[-1]


def _sizes(shape: Sequence[int], form: str) -> dict[str, int]:
    return dict(zip(form, shape, strict=True))


def _arranged(sizes: dict[str, int], form: str, before: str) -> list[int]:
    if set(form) != set(before):
        form = before
    return [sizes[axis] for axis in form]


def _group(layout: Any) -> str:
    """Which of the three share one piece of memory."""
    name = _name(layout)
    if "3" in name:
        return "all"
    return "keys and values" if "2" in name else "none"


def get_fused_attn_backend(*args: Any, **kwargs: Any) -> tuple[int, str]:
    """Which kernel of cuDNN takes an attention of these sizes."""
    asked = args[0] if len(args) == 1 else None
    if asked is None:
        return _NO_BACKEND, "these arguments are not known"
    kind = int(asked.qkv_dtype)
    major = torch.cuda.get_device_capability()[0]
    head = max(asked.head_dim_qk, asked.head_dim_v)
    if asked.head_dim_qk % 8 or asked.head_dim_v % 8:
        return _NO_BACKEND, "the head dimension is no multiple of 8"
    if kind in _HALF_TYPES and head <= (256 if major >= 9 else 128):
        return _F16, ""
    if kind in _FP8_TYPES and major >= 9 and head <= (256 if major == 9 else 192):
        return _FP8, ""
    return _NO_BACKEND, "cuDNN has no kernel for this type or head dimension"


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
    """The output, then what backward needs: log-sum-exp, the random state, bias and offset."""
    form, _ = _formats(qkv_layout)
    sizes = _sizes(shape_of(Q), form)
    sizes["D"] = shape_of(V)[-1]
    device = Q.device
    delayed = kind_of(o_quantizer) == "Float8Quantizer"
    out = make(
        o_quantizer if delayed else None,
        _arranged(sizes, _name(o_format), form),
        fake_dtype,
        device,
    )
    state = torch.empty(2, dtype=torch.int64, device=device)
    heads = sizes["H"]
    rows = [sizes["T"], heads, 1] if form == "THD" else [sizes["B"], heads, max_seqlen_q, 1]
    kept = [torch.empty(rows, dtype=torch.float32, device=device)]
    if return_max_logit:
        kept.append(torch.empty(rows, dtype=torch.float32, device=device))
    kept.append(state)
    if Bias is not None and _name(bias_type) not in ("NO_BIAS", "ALIBI"):
        kept.append(Bias)
    if SoftmaxOffset is not None and _name(softmax_type) != "VANILLA_SOFTMAX":
        kept.append(SoftmaxOffset)
    return [out, *kept]


def _gradients(
    layout: Any, shapes: Sequence[list[int]], dtype: torch.dtype, device: Any
) -> list[torch.Tensor]:
    """Gradients of queries, keys and values, in one piece where the layout has them so."""
    group = _group(layout)
    if group == "none":
        return [torch.empty(shape, dtype=dtype, device=device) for shape in shapes]
    # The digit in the layout's name stands where the extra dimension lies.
    behind_heads = "H3D" in _name(layout) or "H2D" in _name(layout)

    def packed(shape: list[int], count: int) -> list[torch.Tensor]:
        axis = len(shape) - (1 if behind_heads else 2)
        whole = torch.empty([*shape[:axis], count, *shape[axis:]], dtype=dtype, device=device)
        return [whole.select(axis, which) for which in range(count)]

    if group == "all":
        return packed(shapes[0], 3)
    return [torch.empty(shapes[0], dtype=dtype, device=device), *packed(shapes[1], 2)]


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
    before = _formats(qkv_layout)
    after = _formats(dqkv_layout)
    device = Q.device
    shapes = []
    for tensor, which in ((Q, 0), (K, 1), (V, 1)):
        sizes = _sizes(shape_of(tensor), before[which])
        shapes.append(_arranged(sizes, after[which], before[which]))
    delayed = kind_of(quantizer) == "Float8Quantizer"
    element = torch.uint8 if delayed else torch_type(fake_dtype)
    plain = _gradients(dqkv_layout, shapes, element, device)
    grads: list[Any] = list(plain)
    if delayed:
        grads = [
            make(quantizer, shape, fake_dtype, device, data=data)
            for shape, data in zip(shapes, plain, strict=True)
        ]
    _backward_workspace(Q, K, before, element)
    bias = offset = None
    if _name(bias_type) not in ("NO_BIAS", "ALIBI"):
        bias = torch.empty(shape_of(Aux_CTX_Tensors[-1]), dtype=element, device=device)
    if _name(softmax_type) != "VANILLA_SOFTMAX":
        heads = _sizes(shape_of(Q), before[0])["H"]
        offset = torch.empty([1, heads, 1, 1], dtype=torch.float32, device=device)
    return [*grads, bias, offset]


def _backward_workspace(
    queries: Any, keys: Any, forms: tuple[str, str], element: torch.dtype
) -> torch.Tensor:
    """cuDNN adds up the queries' gradients in float32; shared keys have gradients for each head."""
    shape = shape_of(queries)
    width = shape[-1]
    heads = _sizes(shape, forms[0])["H"]
    key_sizes = _sizes(shape_of(keys), forms[1])
    size = math.prod(shape[:-1]) * (width + 1) * 4 + 256
    if key_sizes["H"] != heads:
        rows = math.prod(shape_of(keys)[:-1]) // key_sizes["H"]
        size += 2 * rows * heads * width * element.itemsize
    return torch.empty(size, dtype=torch.uint8, device=queries.device)


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
    """The gradient of the one tensor."""
    first, second, q_heads, width = shape_of(q_grad_out)
    heads = q_heads + shape_of(k_grad_out)[2] + shape_of(v_grad_out)[2]
    whole = sum(qkv_split_arg_list)
    shape = [first, second, heads * width // whole, whole]
    return torch.empty(shape, dtype=q_grad_out.dtype, device=q_grad_out.device)


def dropout_fwd(input: Any, dropout_probability: float, out: Any = None) -> list[Any]:
    """Dropout with one bit of mask for each element."""
    if out is None:
        out = torch.empty(shape_of(input), dtype=input.dtype, device=input.device)
    bits = math.prod(shape_of(input)) // 8
    return [out, torch.empty(bits, dtype=torch.uint8, device=input.device)]


def dropout_bwd(
    grad_output: Any, mask: Any, dropout_probability: float, grad_input: Any = None
) -> Any:
    """Its gradient."""
    return torch.empty_like(grad_output) if grad_input is None else grad_input


def get_cudnn_version() -> int:
    """As cuDNN writes it."""
    return _CUDNN_VERSION


def get_cublasLt_version() -> int:
    """As cuBLASLt writes it."""
    return _CUBLAS_LT_VERSION


def get_num_cublas_streams() -> int:
    """How many products of a group run at once; each has its own workspace."""
    return _STREAMS


def functions() -> dict[str, Callable[..., Any]]:
    """All of this module, by the extension's names."""
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
