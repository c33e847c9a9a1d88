"""The contents of tensors on a simulated GPU, for messages between ranks.

Sees: tensors. Talks to: the phantom's library, which records the bytes that have a value. Knows
nothing of ranks.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

from floodmark import torch_private
from floodmark._core import Certainty

#: Larger shares have no value after a collective: values on which programs branch are short.
_MOST_FLOATS = 1 << 12
_MOST_INTEGER_BYTES = 32 << 20

#: The certainties of a message. A sample cannot be sent: its numbers are not in the bytes.
_SENT = {int(one): one for one in (Certainty.ASSUMED, Certainty.RANDOM, Certainty.KNOWN)}


class Region(NamedTuple):
    """The elements of a tensor, or a part of them."""

    address: int
    numbers: int
    dtype: Any
    is_contiguous: bool

    @property
    def bytes_long(self) -> int:
        return int(self.numbers * self.dtype.itemsize)

    @property
    def is_short(self) -> bool:
        """Whether its values are sent; equal on every rank, because counts and types are."""
        if self.dtype.is_floating_point or self.dtype.is_complex:
            return self.numbers <= _MOST_FLOATS
        return self.bytes_long <= _MOST_INTEGER_BYTES

    def parts(self, counts: Sequence[int]) -> list[Region]:
        """Consecutive parts with these numbers of elements."""
        found, at = [], self.address
        for count in counts:
            found.append(Region(at, count, self.dtype, self.is_contiguous))
            at += count * self.dtype.itemsize
        return found


class Content(NamedTuple):
    """The bytes of a region, and their certainty."""

    certainty: Certainty
    data: bytes

    def to_bytes(self) -> bytes:
        return bytes([int(self.certainty)]) + self.data

    @classmethod
    def from_bytes(cls, message: bytes | None) -> Content:
        """The content of a message; None becomes an unknown content."""
        if not message or message[0] not in _SENT:
            return _UNKNOWN
        return cls(_SENT[message[0]], message[1:])


_UNKNOWN = Content(Certainty.NOTHING, b"")


def region_of(tensor: Any) -> Region:
    """The region of a device tensor."""
    return Region(tensor.data_ptr(), tensor.numel(), tensor.dtype, tensor.is_contiguous())


def read(library: Any, region: Region, *, as_known: bool = False) -> Content:
    """The content of a region; unknown if any element is."""
    if not region.is_contiguous:
        return _UNKNOWN
    certainty = Certainty.KNOWN
    if not as_known:
        certainty = library.certainty(region.address, region.bytes_long)
    if int(certainty) not in _SENT:
        return _UNKNOWN
    return Content(certainty, ctypes.string_at(region.address, region.bytes_long))


def write(library: Any, region: Region, content: Content) -> None:
    """Write a content to a region; a shorter one fills its beginning."""
    if not region.is_contiguous:
        return
    library.set_certainty(region.address, region.bytes_long, Certainty.NOTHING)
    length = min(len(content.data), region.bytes_long)
    if content.certainty != Certainty.NOTHING and length:
        ctypes.memmove(region.address, content.data, length)
        library.set_certainty(region.address, length, content.certainty)


def reduced(operations: Any, operation: Any, dtype: Any, shares: list[Content]) -> Content:
    """Reduce one share of each rank with torch's operation; unknown if one share is."""
    certainty = min(share.certainty for share in shares)
    if certainty == Certainty.NOTHING:
        return _UNKNOWN
    import torch

    if not shares[0].data:
        return shares[0]
    memory = bytearray(shares[0].data)
    with torch_private.outside_modes(), torch.no_grad():
        numbers = torch.frombuffer(memory, dtype=dtype)
        for share in shares[1:]:
            other = torch.frombuffer(bytearray(share.data), dtype=dtype)
            if not _reduce_into(torch, operations, operation, numbers, other):
                return _UNKNOWN
        if operation == operations.AVG:
            is_whole = not (dtype.is_floating_point or dtype.is_complex)
            numbers.div_(len(shares), rounding_mode="trunc" if is_whole else None)
    return Content(certainty, bytes(memory))


def _reduce_into(torch: Any, known: Any, operation: Any, numbers: Any, other: Any) -> bool:
    """Reduce into `numbers`; False for an unsupported operation."""
    is_truth = numbers.dtype is torch.bool
    if operation in (known.SUM, known.AVG):
        torch.logical_or(numbers, other, out=numbers) if is_truth else numbers.add_(other)
    elif operation == known.PRODUCT:
        torch.logical_and(numbers, other, out=numbers) if is_truth else numbers.mul_(other)
    elif operation == known.MAX:
        torch.maximum(numbers, other, out=numbers)
    elif operation == known.MIN:
        torch.minimum(numbers, other, out=numbers)
    else:
        return False
    return True
