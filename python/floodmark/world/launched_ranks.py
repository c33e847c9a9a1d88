"""Supports ranks that a launcher started as processes, each with its own simulated GPU.

They use torch's own groups and stores. The phantom's NCCL moves nothing between processes, so the
sizes of groups are set here, and Python objects and the values of small tensors go through the
group's store. Sees: `torch.distributed.distributed_c10d`. Talks to: the phantom's library.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from floodmark.recording.import_watch import ImportWatch
from floodmark.recording.window_options import say
from floodmark.world import group_sizes
from floodmark.world.collectives_over_store import CollectivesOverStore
from floodmark.world.objects_over_store import ObjectsOverStore
from floodmark.world.rank_messages import RankMessages
from floodmark.world.replaced_names import everywhere


def install(phantom: Any) -> None:
    """Wrap the collectives of this process once torch.distributed is imported."""

    def change(c10d: ModuleType) -> None:
        group_sizes.watch(c10d, phantom.library)
        collectives = CollectivesOverStore(c10d, phantom, RankMessages(c10d, say))
        objects = ObjectsOverStore(c10d, phantom, collectives)
        for name, function in {**collectives.functions(), **objects.functions()}.items():
            setattr(c10d, name, function)

    ImportWatch("torch.distributed.distributed_c10d", everywhere(change))
