"""Pickles fake tensors as their layouts, without values.

Inside a block of fake tensors such a file can be read again; elsewhere reading it is an error that
says why. Sees: the layout of tensors. Knows nothing of memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

#: The open blocks, and the `map_location` of each running `torch.load`.
_open = 0
_locations: list[Any] = []

#: Size, strides, type, device, `requires_grad`, and whether it is a parameter.
TensorLayout = tuple[tuple[int, ...], tuple[int, ...], Any, str, bool, bool]


def reduce(tensor: Any) -> tuple[Callable[..., Any], TensorLayout]:
    """The pickled form of a fake tensor."""
    import torch

    layout = (
        tuple(tensor.shape),
        tuple(tensor.stride()),
        tensor.dtype,
        str(tensor.device),
        bool(tensor.requires_grad and tensor.is_leaf),
        isinstance(tensor, torch.nn.Parameter),
    )
    return revive, layout


def revive(
    size: tuple[int, ...],
    stride: tuple[int, ...],
    dtype: Any,
    device: str,
    requires_grad: bool,
    is_parameter: bool,
) -> Any:
    """A new tensor with this layout."""
    import torch

    if not _open:
        raise RuntimeError(
            "this file was written in an estimate with fake tensors: it has shapes and no values"
        )
    where = _located(device)
    made = torch.empty_strided(size, stride, dtype=dtype, device=where)
    if is_parameter:
        return torch.nn.Parameter(made, requires_grad)
    return made.requires_grad_(requires_grad)


def _located(device: str) -> Any:
    wanted = _locations[-1] if _locations else None
    if wanted is None:
        return device
    if isinstance(wanted, dict):
        return wanted.get(device, device)
    # A function gets a storage in host memory, and usually returns it.
    return "cpu" if callable(wanted) else wanted


@contextlib.contextmanager
def located(map_location: Any) -> Iterator[None]:
    """Set the location of tensors for one `torch.load`."""
    _locations.append(map_location)
    try:
        yield
    finally:
        _locations.pop()


def allow(torch: Any) -> Callable[[], None]:
    """Allow reading such files, also with `weights_only`; returns a function that undoes this."""
    global _open
    before = list(torch.serialization.get_safe_globals())
    torch.serialization.add_safe_globals([revive])
    _open += 1

    def undo() -> None:
        global _open
        _open -= 1
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(before)

    return undo
