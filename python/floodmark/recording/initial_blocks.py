"""Blocks that were live before the recording began.

On CUDA the caching allocator lists them. The CPU allocator has no list, so the recorder searches
the process's memory for torch's storages.

Sees: torch's allocator, and a tensor of its own. Keeps no reference.
"""

from __future__ import annotations

from types import ModuleType

from floodmark import _core, torch_private

#: Device type, index, address, bytes, requested bytes, whether it is a segment.
Block = tuple[str, int, int, int, int, bool]


def _device_blocks(torch: ModuleType) -> list[Block]:
    """Segments and live blocks of every CUDA device."""
    blocks: list[Block] = []
    for segment in torch_private.allocator_segments(torch):
        device = int(segment["device"])
        address = int(segment["address"])
        blocks.append(("cuda", device, address, int(segment["total_size"]), 0, True))
        for block in segment["blocks"]:
            size = int(block["size"])
            # Blocks of old snapshots have no addresses: they follow each other.
            start = int(block.get("address", address))
            if block["state"] == "active_allocated":
                requested = int(block.get("requested_size", 0))
                blocks.append(("cuda", device, start, size, requested, False))
            address = start + size
    return blocks


def record_device_blocks(torch: ModuleType) -> None:
    """Record the segments and live blocks of every CUDA device. The hooks must be in place."""
    _core.record_initial_blocks(lambda: _device_blocks(torch))


def record_host_blocks() -> list[str]:
    """Record the live blocks of torch's CPU allocator; returns warnings about missing ones.

    The hooks must be in place. `prove_tensors` must have been called.
    """
    unsearched = _core.record_host_blocks()
    if unsearched is None:
        return ["CPU blocks from before the recording are unknown: they could not be searched for"]
    if unsearched > 0:
        return [
            "CPU blocks from before the recording may be missing: "
            f"{unsearched >> 20} MiB of memory were not searched"
        ]
    return []


def prove_tensors(torch: ModuleType) -> bool:
    """Whether a tensor's memory layout is as the recorder expects. Allocates nothing with torch."""
    try:
        with torch_private.outside_modes(), torch_private.without_function_modes(torch):
            sample = torch.frombuffer(bytearray(4093), dtype=torch.uint8)
            empty = torch.UntypedStorage(0, device="cpu")
            return _core.prove_tensors(*torch_private.addresses_of(sample, empty))
    except Exception:
        # This torch lacks one of the names; the caller reports it.
        return False
