"""Copies of device tensors on the host, for calls that are run a second time there.

A copy has storage of its own, contiguous and of the tensor's full size: torch's kernels for the
CPU may read and write it by pointer, whatever the strides on the device were. Sees: tensors and
the bytes at a device's addresses. Knows nothing of functions.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from floodmark import torch_private
from floodmark._core import Certainty

#: Calls with more elements than this are not run on the host.
MOST_INTEGERS = 1 << 24
MOST_UNKNOWN_FLOATS = 1 << 18
#: Random floats of more elements than this become a sample.
MOST_RANDOM_FLOATS = 1 << 16


class NotFollowed(Exception):
    """The arguments of a call are too large to run it on the host, or quantized."""


def empty_on_host(torch: Any, shape: Any, dtype: Any) -> Any:
    """An uninitialised host tensor for a copy."""
    return torch.empty(shape, dtype=dtype, device="cpu")


class Move:
    """Moves the arguments of a call to the host. Not a closure: a cycle would keep tensors alive.

    `is_moved` selects the tensors that `copy_of` copies: by default those of a device."""

    def __init__(
        self,
        torch: Any,
        copy_of: Callable[[Any], Any],
        is_moved: Callable[[Any], bool] = attrgetter("is_cuda"),
    ) -> None:
        self._torch = torch
        self._copy_of = copy_of
        self._is_moved = is_moved
        #: One copy of each tensor: a function may get one tensor twice, and write to it.
        self._copies: dict[int, Any] = {}

    def to_host(self, value: Any) -> Any:
        """The value with device tensors replaced by host tensors, and devices by the host."""
        if isinstance(value, list | tuple):
            return type(value)([self.to_host(item) for item in value])
        if isinstance(value, self._torch.Tensor):
            return self.copy(value) if self._is_moved(value) else value
        if isinstance(value, self._torch.device):
            return self._torch.device("cpu")
        if isinstance(value, str) and value.startswith("cuda"):
            return "cpu"
        if isinstance(value, slice):
            return slice(*map(self.to_host, (value.start, value.stop, value.step)))
        return None if isinstance(value, self._torch.Generator) else value

    def call_on_host(self, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call, moved to the host."""
        named = {key: self.to_host(value) for key, value in kwargs.items()}
        if "pin_memory" in named:
            named["pin_memory"] = False
        return self.to_host(tuple(args)), named

    def copy(self, tensor: Any) -> Any:
        """The copy of a device tensor."""
        found = self._copies.get(id(tensor))
        if found is None:
            found = self._copies[id(tensor)] = self._copy_of(tensor)
        return found


class OwnRandomNumbers:
    """Separate random states, so that the program's own random numbers do not change."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        # A fixed seed, so that two estimates of one program agree.
        self._state = _bytes_of(torch.Generator().manual_seed(0).get_state())

    @contextlib.contextmanager
    def drawn(self) -> Iterator[None]:
        """A block in which host functions draw from these states."""
        theirs = self._torch.get_rng_state()
        self._torch.set_rng_state(self._torch.frombuffer(self._state, dtype=self._torch.uint8))
        try:
            yield
        finally:
            self._state = _bytes_of(self._torch.get_rng_state())
            self._torch.set_rng_state(theirs)


def _bytes_of(state: Any) -> bytearray:
    """A state as bytes: a tensor would count as host memory of the program."""
    return bytearray(ctypes.string_at(state.data_ptr(), state.numel()))


def alias_of(torch: Any, tensor: Any) -> Any:
    """A host tensor over the bytes of a device tensor, only for copies: never pass it to a
    kernel."""
    address, length = region_of(tensor)
    if length == 0:
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
    memory = (ctypes.c_char * length).from_address(address)
    alias = torch.frombuffer(memory, dtype=tensor.dtype).as_strided(tensor.shape, tensor.stride())
    # With these bits the value differs from the bytes.
    if tensor.is_conj():
        alias = alias.conj()
    return torch_private.negative_view(torch, alias) if tensor.is_neg() else alias


def region_of(tensor: Any) -> tuple[int, int]:
    """The address and length of the bytes from a tensor's first to its last element."""
    if tensor.numel() == 0:
        return 0, 0
    if tensor.is_contiguous():
        return tensor.data_ptr(), tensor.nbytes
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), (last + 1) * tensor.element_size()


def check_operands(tensors: list[Any], certainty: Certainty) -> None:
    """Raise `NotFollowed` for operands that are too large; call it before copying anything."""
    floats = 0
    for tensor in tensors:
        if tensor.numel() > MOST_INTEGERS or tensor.is_quantized:
            raise NotFollowed
        if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
            floats += tensor.numel()
    if certainty < Certainty.KNOWN and floats > MOST_UNKNOWN_FLOATS:
        raise NotFollowed


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors in a value, also inside lists, tuples and dicts."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif hasattr(value, "untyped_storage"):
        yield value


def is_float(tensor: Any) -> bool:
    """Whether a tensor's element type is floating-point or complex."""
    return bool(tensor.dtype.is_floating_point or tensor.dtype.is_complex)


def with_storages_of_their_own(tensors: list[Any], others: list[Any]) -> list[Any]:
    """The tensors that share no storage with the others. Both may be lists of all parameters."""
    if not tensors:
        return []
    same = {id(other) for other in others}
    storages = {_storage_of(other) for other in others}
    return [
        tensor
        for tensor in tensors
        if id(tensor) not in same and _storage_of(tensor) not in storages
    ]


def _storage_of(tensor: Any) -> tuple[bool, int]:
    """Whether the tensor is on a device, and the address of its storage, or a unique number without
    one."""
    return tensor.is_cuda, tensor.untyped_storage().data_ptr() or -id(tensor)
