"""What was in memory before recording began.

On CUDA the caching allocator tells. On the CPU nobody keeps a list, so we look for the storages
of all tensors that Python can see; what only C++ holds stays unknown.

Sees: torch's allocator and the garbage collector's list. Keeps no reference.
"""

from __future__ import annotations

import gc
import sys
from types import ModuleType
from typing import Any

from floodmark import _compat

#: Device type, index, address, bytes, requested bytes, whether it is a segment.
Block = tuple[str, int, int, int, int, bool]


def device_blocks(torch: ModuleType) -> list[Block]:
    """Segments and live blocks of every CUDA device."""
    blocks: list[Block] = []
    for segment in _compat.allocator_segments(torch):
        device = int(segment["device"])
        address = int(segment["address"])
        blocks.append(("cuda", device, address, int(segment["total_size"]), 0, True))
        for block in segment["blocks"]:
            size = int(block["size"])
            # Old snapshots have no addresses: blocks lie one after the other.
            start = int(block.get("address", address))
            if block["state"] == "active_allocated":
                requested = int(block.get("requested_size", 0))
                blocks.append(("cuda", device, start, size, requested, False))
            address = start + size
    return blocks


def host_blocks(torch: ModuleType) -> list[Block] | None:
    """Storages of all CPU tensors that the garbage collector knows; None while others run.

    The list of all objects also has tensors that only C++ holds. Another thread may be about to
    destroy such a one, without the GIL, and to touch it then would free it twice. So we look only
    while no other thread of Python is there.
    """
    if len(sys._current_frames()) > 1:
        return None
    # By the address of the type: `isinstance`, or a hash, may run a line of the user's.
    kinds = {id(kind) for kind in _compat.tensor_types(torch)}
    found: dict[int, int] = {}
    for thing in [thing for thing in gc.get_objects() if id(type(thing)) in kinds]:
        _note_storage(thing, found)
    return [("cpu", -1, address, size, size, False) for address, size in found.items()]


def _note_storage(tensor: Any, found: dict[int, int]) -> None:
    try:
        for one in (tensor, tensor.grad if tensor.is_leaf else None):
            if one is None or one.device.type != "cpu" or one.is_sparse:
                continue
            storage = one.untyped_storage()
            address, size = storage.data_ptr(), storage.nbytes()
            if address and size:
                found[address] = max(size, found.get(address, 0))
    except Exception:
        # Fake, meta and functional tensors have no storage to speak of.
        return
