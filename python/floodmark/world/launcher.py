"""The environment variables of a rank, as `torchrun` sets them.

Sees: numbers. Sets no variable.
"""

from __future__ import annotations


def launched_as(rank: int, world: int, gpus: int) -> dict[str, str]:
    """The variables of rank `rank` of `world`, on nodes with `gpus` GPUs each."""
    on_node = max(1, min(gpus, world))
    node = rank // on_node
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_RANK": str(rank % on_node),
        "LOCAL_WORLD_SIZE": str(on_node),
        "GROUP_RANK": str(node),
        "NODE_RANK": str(node),
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(world),
        "GROUP_WORLD_SIZE": str(-(-world // on_node)),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
        "TORCHELASTIC_RUN_ID": "floodmark",
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
    }
