"""Passes the sizes of split communicators to the phantom's NCCL.

NCCL gets the size from the other ranks in `ncclCommSplit`. Sees:
`torch.distributed.distributed_c10d`, where groups are created. Knows nothing of what a group does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import wraps
from inspect import BoundArguments
from typing import Any

from floodmark import torch_private_distributed
from floodmark._core import PhantomLibrary
from floodmark.world.replaced_names import with_arguments


def watch(c10d: Any, library: PhantomLibrary) -> None:
    """Set the size of every group in the phantom when torch creates it."""

    @contextlib.contextmanager
    def split_of(ranks: Sequence[int]) -> Iterator[None]:
        library.set_group_size(-1, len(ranks))
        try:
            yield
        finally:
            library.set_group_size(-1, 0)

    slot = torch_private_distributed.group_helper(c10d)
    helper = getattr(*slot)

    def new_group(bound: BoundArguments) -> Any:
        with split_of(bound.arguments["global_ranks_in_group"]):
            return helper(*bound.args, **bound.kwargs)

    setattr(*slot, with_arguments(helper, new_group))
    _watch_colors(c10d, library)
    split = getattr(c10d, "split_group", None)
    if split is not None:

        def split_group(bound: BoundArguments) -> Any:
            given = bound.arguments
            rank = c10d.get_rank(given.get("parent_pg"))
            groups = [ranks for ranks in given.get("split_ranks") or () if rank in ranks]
            with split_of(groups[0] if groups else ()):
                return split(*bound.args, **bound.kwargs)

        c10d.split_group = with_arguments(split, split_group)


def _watch_colors(c10d: Any, library: PhantomLibrary) -> None:
    """Set sizes by color, for splits that are created at their first use."""
    slot = torch_private_distributed.group_color(c10d)
    color = getattr(*slot, None)
    if color is None:
        return

    @wraps(color)
    def process_group_color(ranks: list[int]) -> int:
        found = int(color(ranks))
        library.set_group_size(found, len(ranks))
        return found

    setattr(*slot, process_group_color)
