"""Replacements for casts of Transformer Engine that only allocate quantized tensors.

Each function takes the arguments of the compiled one of the same name and returns tensors of the
same shapes and types. Values are never computed. Sees: tensors and the quantizers of Transformer
Engine. Talks to: `_core`, which has the rules about buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from floodmark import _core

#: `transformer_engine::DType` by number. FP8 and FP4 lie in bytes.
_TORCH_TYPES = {
    0: torch.uint8,
    2: torch.int32,
    3: torch.int64,
    4: torch.float32,
    5: torch.float16,
    6: torch.bfloat16,
    7: torch.float8_e4m3fn,
    8: torch.float8_e5m2,
    10: torch.uint8,
}

#: The quantizers of Transformer Engine that kernels treat differently, by the name of their class.
_QUANTIZERS = {
    "Float8Quantizer": _core.TeQuantizer.DELAYED_SCALING,
    "Float8CurrentScalingQuantizer": _core.TeQuantizer.CURRENT_SCALING,
    "MXFP8Quantizer": _core.TeQuantizer.MXFP8,
}


def torch_type(dtype: Any) -> torch.dtype:
    """The torch dtype of a `DType`; a torch dtype is returned unchanged."""
    return dtype if isinstance(dtype, torch.dtype) else _TORCH_TYPES[int(dtype)]


def kind_of(quantizer: Any) -> _core.TeQuantizer:
    """The kind of a quantizer of Transformer Engine."""
    if quantizer is None:
        return _core.TeQuantizer.ABSENT
    for base in type(quantizer).__mro__:
        if base.__module__.startswith("transformer_engine."):
            return _QUANTIZERS.get(base.__name__, _core.TeQuantizer.OTHER)
    return _core.TeQuantizer.OTHER


def shape_of(tensor: Any) -> list[int]:
    """The logical shape, of a plain or a quantized tensor."""
    return list(tensor.size())


def _float8_buffers(quantizer: Any, shape: list[int]) -> tuple[list[int] | None, list[int] | None]:
    """The shapes of the data and of the transposed copy of a tensor in FP8, on this GPU."""
    from transformer_engine.pytorch import utils

    return _core.te_float8_buffers(
        shape,
        rowwise=bool(quantizer.rowwise_usage),
        columnwise=bool(quantizer.columnwise_usage),
        transposes=not utils.is_non_tn_fp8_gemm_supported(),
    )


def make(
    quantizer: Any,
    shape: Sequence[int],
    dtype: Any,
    device: Any,
    pin_memory: bool = False,
    data: torch.Tensor | None = None,
) -> Any:
    """An uninitialised tensor, quantized like by `quantizer`, or plain without one."""
    dtype, device, shape = torch_type(dtype), torch.device(device), list(shape)
    if quantizer is None:
        if data is not None:
            return data
        return torch.empty(shape, dtype=dtype, device=device, pin_memory=pin_memory)
    if kind_of(quantizer).is_per_tensor():
        return _per_tensor(quantizer, shape, dtype, device, pin_memory, data)
    parts = {
        name: torch.empty(size, dtype=part, device=device, pin_memory=pin_memory)
        for name, (size, part) in quantizer.inner_tensor_specs(tuple(shape)).items()
    }
    about = quantizer.create_metadata(tuple(shape), dtype=dtype)
    strides = torch.empty(shape, device="meta").stride()
    return about["cls"].__tensor_unflatten__(parts, about, tuple(shape), strides)


def _per_tensor(
    quantizer: Any,
    shape: list[int],
    dtype: torch.dtype,
    device: torch.device,
    pin_memory: bool,
    data: torch.Tensor | None,
) -> Any:
    from transformer_engine.pytorch.tensor.float8_tensor import Float8Tensor
    from transformer_engine.pytorch.tensor.storage.float8_tensor_storage import (
        Float8TensorStorage,
    )

    options: dict[str, Any] = {"dtype": torch.uint8, "device": device, "pin_memory": pin_memory}
    whole, turned = _float8_buffers(quantizer, shape)
    if data is None and whole is not None:
        data = torch.empty(whole, **options)
    transpose = None if turned is None else torch.empty(turned, **options)
    parts: dict[str, Any] = {
        "data": data,
        "data_transpose": transpose,
        "fp8_scale_inv": torch.empty(1, dtype=torch.float32, device=device, pin_memory=pin_memory),
        "fp8_dtype": quantizer.dtype,
        "quantizer": quantizer,
    }
    if quantizer.internal:
        return Float8TensorStorage(**parts, fake_dtype=dtype)
    return Float8Tensor(shape=shape, dtype=dtype, device=device, **parts)


def _like_quantized(tensor: Any, quantizer: Any) -> None:
    """Adds the buffers that `quantizer` needs to an existing output `tensor`."""
    if kind_of(quantizer).is_per_tensor():
        options = {"dtype": torch.uint8, "device": tensor.device}
        wanted = _float8_buffers(quantizer, shape_of(tensor))
        for name, size in zip(("_data", "_transpose"), wanted, strict=True):
            if size is None:
                setattr(tensor, name, None)
            elif getattr(tensor, name) is None:
                setattr(tensor, name, torch.empty(size, **options))
        tensor._transpose_invalid = tensor._transpose is None
        return
    parts = quantizer.inner_tensor_specs(tuple(shape_of(tensor)))
    for name, _ in type(tensor)._INNER_TENSORS:
        if name not in parts:
            setattr(tensor, name, None)
        elif getattr(tensor, name) is None:
            size, part = parts[name]
            setattr(tensor, name, torch.empty(size, dtype=part, device=tensor.device))


def quantize(tensor: Any, quantizer: Any, output: Any = None, noop: Any = None) -> Any:
    """Casts to `quantizer`'s format."""
    source = tensor.contiguous()
    if output is None:
        return make(quantizer, shape_of(source), source.dtype, source.device)
    _like_quantized(output, quantizer)
    return output


def dequantize(input: Any, otype: Any) -> Any:
    """Casts back."""
    return torch.empty(shape_of(input), dtype=torch_type(otype), device=input.device)


def create_empty_quantized_tensor(
    quantizer: Any, shape: Sequence[int], dtype: Any, device: Any, pin_memory: bool
) -> Any:
    """A quantized tensor without content."""
    return make(quantizer, shape, dtype, device, pin_memory)


def multi_tensor_quantize(tensor_list: Sequence[Any], quantizer_list: Sequence[Any]) -> list[Any]:
    """Casts each tensor."""
    return [quantize(one, how) for one, how in zip(tensor_list, quantizer_list, strict=True)]


def split_quantize(
    tensor: Any,
    split_sections: Sequence[int],
    quantizer_list: Sequence[Any],
    disable_bulk_allocation: bool = False,
) -> list[Any]:
    """Splits along the rows and casts each part."""
    source = tensor.contiguous()
    rest = shape_of(source)[1:]
    return [
        make(how, [rows, *rest], source.dtype, source.device)
        for rows, how in zip(split_sections, quantizer_list, strict=True)
    ]


def bgrad_quantize(input: Any, quantizer: Any) -> list[Any]:
    """The gradient of a bias, and the cast of the output gradient."""
    grad = input.contiguous()
    if quantizer is None:
        return [sum_of_rows(grad), grad]
    out = make(quantizer, shape_of(grad), grad.dtype, grad.device)
    if _sums_while_casting(quantizer):
        return [torch.empty(grad.shape[-1], dtype=grad.dtype, device=grad.device), out]
    return [sum_of_rows(grad), out]


def sum_of_rows(grad: Any) -> Any:
    """torch's own sum, which the extension calls too, so that its workspace is estimated."""
    return torch.sum(grad.reshape(-1, grad.shape[-1]), 0)


def _sums_while_casting(quantizer: Any) -> bool:
    """Whether one kernel both casts a gradient and sums it for the bias."""
    rowwise, columnwise = bool(quantizer.rowwise_usage), bool(quantizer.columnwise_usage)
    capability = torch.cuda.get_device_capability()
    return kind_of(quantizer).sums_while_casting(rowwise, columnwise, capability)


def fp8_transpose(input: Any, dtype: Any, *, out: Any = None) -> Any:
    """The transposed copy of bytes that hold FP8."""
    if out is not None:
        return out
    shape = _core.te_transposed(shape_of(input))
    return torch.empty(shape, dtype=torch.uint8, device=input.device)


def functions() -> dict[str, Callable[..., Any]]:
    """The functions of this module by the extension's names."""
    return {
        function.__name__: function
        for function in (
            quantize,
            dequantize,
            create_empty_quantized_tensor,
            multi_tensor_quantize,
            split_quantize,
            bgrad_quantize,
            fp8_transpose,
        )
    }
