"""The layout of fake tensors in their storages.

Sees: sizes and strides. Knows nothing of blocks.
"""

from __future__ import annotations

from typing import Any

from floodmark import torch_private


def is_dense(tensor: Any) -> bool:
    """Whether its elements fill a contiguous range of memory, in any order."""
    filled = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1 and stride != filled:
            return False
        filled *= size
    return True


def share_storage(one: Any, other: Any) -> bool:
    """Whether both tensors share a storage."""
    storages = (tensor.untyped_storage() for tensor in (one, other))
    first, second = map(torch_private.storage_id, storages)
    return first == second
