"""What torch writes down of a process group.

Sees: `torch.distributed.distributed_c10d`. Knows nothing of what a group does.
"""

from __future__ import annotations

from typing import Any


def keep_name(c10d: Any, made: Any, backend: Any) -> Any:
    """Let a group go by the backend that the program asked for, not by the one that it got.

    Gives back the group; none where this process is not one of its ranks.
    """
    group = made[0] if isinstance(made, tuple) else made
    if group not in c10d._world.pg_map:
        return None
    _, prefix_store = c10d._world.pg_map[group]
    c10d._world.pg_map[group] = (backend, prefix_store)
    c10d._world.pg_backend_config[group] = str(c10d.BackendConfig(backend))
    return group
