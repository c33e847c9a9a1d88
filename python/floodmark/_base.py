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

#: Longer than one look at all objects.
_LONG_SECONDS = 10.0

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


def host_blocks(torch: ModuleType) -> list[Block]:
    """Storages of all CPU tensors that the garbage collector knows and Python holds.

    The list of all objects also has tensors that only C++ holds. Another thread may be about to
    destroy such a one, without the GIL, and to touch it then frees it twice. So where there are
    other threads, a tensor counts only if some object of Python refers to it, and gradients, which
    C++ holds, do not count.
    """
    # By the address of the type: `isinstance`, or a hash, may run a line of the user's.
    kinds = {id(kind) for kind in _compat.tensor_types(torch)}
    frames = sys._current_frames()
    is_alone = len(frames) == 1
    found: dict[int, int] = {}
    # No other thread of Python comes in between: what is held stays held.
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_LONG_SECONDS)
    try:
        things = gc.get_objects()
        tensors = [thing for thing in things if id(type(thing)) in kinds]
        if not is_alone:
            tensors = _held_by_python(tensors, things, kinds, list(frames.values()))
        del things
        for tensor in tensors:
            _note_storage(tensor, found, with_gradient=is_alone)
        del tensors
    finally:
        sys.setswitchinterval(interval)
    return [("cpu", -1, address, size, size, False) for address, size in found.items()]


def _held_by_python(
    tensors: list[Any], things: list[Any], kinds: set[int], frames: list[Any]
) -> list[Any]:
    """Those of the tensors to which an object refers that is no tensor, or a running function."""
    for frame in frames:
        while frame is not None:
            things.append(frame)
            frame = frame.f_back
    others = [thing for thing in things if id(type(thing)) not in kinds]
    held = set(map(id, gc.get_referents(*others)))
    return [tensor for tensor in tensors if id(tensor) in held]


def _note_storage(tensor: Any, found: dict[int, int], *, with_gradient: bool) -> None:
    try:
        for one in (tensor, tensor.grad if with_gradient and tensor.is_leaf else None):
            if one is None or one.device.type != "cpu" or one.is_sparse:
                continue
            storage = one.untyped_storage()
            address, size = storage.data_ptr(), storage.nbytes()
            if address and size:
                found[address] = max(size, found.get(address, 0))
    except Exception:
        # Fake, meta and functional tensors have no storage to speak of.
        return
