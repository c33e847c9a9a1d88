"""Slots are looked at while nothing is loaded: the extension has a way to the loader's lock."""

from __future__ import annotations

import struct
from pathlib import Path

import floodmark._core as core

DYNAMIC_SYMBOLS = 11
INDIRECT_FUNCTION = 10


def _exported(path: Path) -> dict[bytes, int]:
    """The dynamic symbols of a 64-bit shared object that are defined, with their types."""
    data = path.read_bytes()
    (table,) = struct.unpack_from("<Q", data, 0x28)
    entry_bytes, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [
        struct.unpack_from("<IIQQQQIIQQ", data, table + at * entry_bytes) for at in range(count)
    ]
    symbols = next(section for section in sections if section[1] == DYNAMIC_SYMBOLS)
    names = sections[symbols[6]][4]
    found = {}
    for at in range(symbols[4], symbols[4] + symbols[5], 24):
        name, info, _other, section = struct.unpack_from("<IBBH", data, at)
        if section:
            start = names + name
            found[data[start : data.index(b"\0", start)]] = info & 15
    return found


def test_the_extension_has_an_indirect_symbol_for_the_loader() -> None:
    exported = _exported(Path(core.__file__))
    assert exported[b"floodmark_slots_at_rest"] == INDIRECT_FUNCTION
    assert exported[b"PyInit__core"] != INDIRECT_FUNCTION
