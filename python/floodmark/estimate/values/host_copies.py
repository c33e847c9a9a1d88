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

#: Beyond this number of elements nothing is worked out.
MOST_INTEGERS = 1 << 24
MOST_UNKNOWN_FLOATS = 1 << 18
#: Beyond this number of elements random floats are a sample.
MOST_RANDOM_FLOATS = 1 << 16


class NotFollowed(Exception):
    """The arguments of a call are larger than what is worked out on the host, or quantized."""


def empty_on_host(torch: Any, shape: Any, dtype: Any) -> Any:
    """Memory on the host for a copy."""
    return torch.empty(shape, dtype=dtype, device="cpu")


class Move:
    """Takes the arguments of a call to the host. No closure: a cycle would keep tensors alive.

    `is_moved` says which tensors `copy_of` is called for: by default those of a device."""

    def __init__(
        self,
        torch: Any,
        copy_of: Callable[[Any], Any],
        is_moved: Callable[[Any], bool] = attrgetter("is_cuda"),
    ) -> None:
        self._torch = torch
        self._copy_of = copy_of
        self._is_moved = is_moved
        #: One copy of each tensor: a function may be given one tensor twice, and write to it.
        self._copies: dict[int, Any] = {}

    def to_host(self, value: Any) -> Any:
        """The value with host tensors for device tensors, and the host for a device."""
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
        """The arguments of a call, for the host."""
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
    """Random numbers of our own: the program's on the host stay what they would have been."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        # Always the same, so that two estimates of one program are.
        self._state = _bytes_of(torch.Generator().manual_seed(0).get_state())

    @contextlib.contextmanager
    def drawn(self) -> Iterator[None]:
        """Functions on the host draw these."""
        theirs = self._torch.get_rng_state()
        self._torch.set_rng_state(self._torch.frombuffer(self._state, dtype=self._torch.uint8))
        try:
            yield
        finally:
            self._state = _bytes_of(self._torch.get_rng_state())
            self._torch.set_rng_state(theirs)


def _bytes_of(state: Any) -> bytearray:
    """A state without its tensor, which would count as host memory of the program."""
    return bytearray(ctypes.string_at(state.data_ptr(), state.numel()))


def alias_of(torch: Any, tensor: Any) -> Any:
    """A host tensor on the bytes of a device tensor, for copies alone: no kernel may have it."""
    address, length = region_of(tensor)
    if length == 0:
        return torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
    memory = (ctypes.c_char * length).from_address(address)
    alias = torch.frombuffer(memory, dtype=tensor.dtype).as_strided(tensor.shape, tensor.stride())
    # These bits say that the value is another one than the bytes.
    if tensor.is_conj():
        alias = alias.conj()
    return torch_private.negative_view(torch, alias) if tensor.is_neg() else alias


def region_of(tensor: Any) -> tuple[int, int]:
    """The bytes from a tensor's first to its last element: address and length."""
    if tensor.numel() == 0:
        return 0, 0
    if tensor.is_contiguous():
        return tensor.data_ptr(), tensor.nbytes
    last = sum((n - 1) * stride for n, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), (last + 1) * tensor.element_size()


def check_operands(tensors: list[Any], certainty: Certainty) -> None:
    """Raise where a call is not run on the host. Comes before anything is copied."""
    floats = 0
    for tensor in tensors:
        if tensor.numel() > MOST_INTEGERS or tensor.is_quantized:
            raise NotFollowed
        if tensor.dtype.is_floating_point or tensor.dtype.is_complex:
            floats += tensor.numel()
    if certainty < Certainty.KNOWN and floats > MOST_UNKNOWN_FLOATS:
        raise NotFollowed


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors in a value, in lists, tuples and dicts too."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif hasattr(value, "untyped_storage"):
        yield value


def is_float(tensor: Any) -> bool:
    """Whether a tensor's numbers are floating-point ones."""
    return bool(tensor.dtype.is_floating_point or tensor.dtype.is_complex)


def with_storages_of_their_own(tensors: list[Any], others: list[Any]) -> list[Any]:
    """The tensors that lie in no storage of the others. Both may be lists of all parameters."""
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
    """Where its storage lies; that of an empty one may lie nowhere."""
    return tensor.is_cuda, tensor.untyped_storage().data_ptr() or -id(tensor)
