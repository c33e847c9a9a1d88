"""Ways in which a file can be damaged. The same number gives the same damage."""

from __future__ import annotations

import random
from collections.abc import Callable

#: Boundary values of lengths and counts.
_EDGES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 64) - 1)


def _place(data: bytearray, chance: random.Random) -> int:
    """A random offset, more often near the beginning or the end."""
    if chance.random() < 0.2:
        return chance.randrange(min(len(data), 64))
    if chance.random() < 0.1:
        return len(data) - 1 - chance.randrange(min(len(data), 64))
    return chance.randrange(len(data))


def _flip(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.choice((1, 1, 1, 2, 8))):
        data[_place(data, chance)] ^= 1 << chance.randrange(8)


def _set_bytes(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.choice((1, 1, 4, 16))):
        data[_place(data, chance)] = chance.randrange(256)


def _set_number(data: bytearray, chance: random.Random) -> None:
    width = chance.choice((1, 2, 4, 8))
    at = _place(data, chance)
    value = chance.choice(_EDGES) & ((1 << (8 * width)) - 1)
    data[at : at + width] = value.to_bytes(width, "little")[: len(data) - at]


def _cut(data: bytearray, chance: random.Random) -> None:
    del data[_place(data, chance) :]


def _remove(data: bytearray, chance: random.Random) -> None:
    at = _place(data, chance)
    del data[at : at + chance.choice((1, 2, 8, 80, 512, 4096))]


def _repeat(data: bytearray, chance: random.Random) -> None:
    at = _place(data, chance)
    part = bytes(data[at : at + chance.choice((1, 8, 80, 512, 4096))])
    data[at:at] = part


def _zero(data: bytearray, chance: random.Random) -> None:
    at = _place(data, chance)
    end = min(len(data), at + chance.choice((1, 8, 80, 512, 4096)))
    data[at:end] = bytes(end - at)


def _insert(data: bytearray, chance: random.Random) -> None:
    at = _place(data, chance)
    data[at:at] = chance.randbytes(chance.choice((1, 4, 80, 4096)))


def _swap(data: bytearray, chance: random.Random) -> None:
    length = chance.choice((1, 8, 80, 512))
    one, other = _place(data, chance), _place(data, chance)
    one, other = min(one, other), max(one, other)
    if other - one >= length:
        a, b = bytes(data[one : one + length]), bytes(data[other : other + length])
        data[other : other + len(b)] = a[: len(b)]
        data[one : one + length] = b.ljust(length, b"\0")


def _append(data: bytearray, chance: random.Random) -> None:
    data += chance.randbytes(chance.choice((1, 16, 4096)))


_ALL: tuple[Callable[[bytearray, random.Random], None], ...] = (
    *(_flip, _flip, _set_bytes, _set_number, _cut, _remove),
    *(_repeat, _zero, _insert, _swap, _append),
)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """The same bytes with one kind of damage, or a few; never the same bytes."""
    changed = bytearray(data)
    while bytes(changed) == data:
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            if changed:
                chance.choice(_ALL)(changed, chance)
    return bytes(changed)
