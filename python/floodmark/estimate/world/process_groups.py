"""What torch writes down of a process group.

Sees: `torch.distributed.distributed_c10d`. Knows nothing of what a group does.
"""

from __future__ import annotations

from typing import Any

from floodmark import torch_private


def keep_name(c10d: Any, made: Any, backend: Any) -> Any:
    """Let a group go by the backend that the program asked for, not by the one that it got.

    Gives back the group; none where this process is not one of its ranks.
    """
    group = made[0] if isinstance(made, tuple) else made
    groups, backends = torch_private.process_groups(c10d)
    if group not in groups:
        return None
    _, prefix_store = groups[group]
    groups[group] = (backend, prefix_store)
    backends[group] = str(c10d.BackendConfig(backend))
    return group
