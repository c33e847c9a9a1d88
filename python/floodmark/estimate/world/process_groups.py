"""Process groups of one rank of many: how a group is begun, and what torch writes down of it.

Sees: `torch.distributed.distributed_c10d`. Knows nothing of what a group does.
"""

from __future__ import annotations

from typing import Any

from floodmark import torch_private


def begin_as(given: dict[str, Any], own: tuple[int, int], store: Any) -> str:
    """Change the arguments of `init_process_group` to those of rank `own[0]` of `own[1]`.

    Gives back what to say where the program asked to be another rank; otherwise nothing.
    """
    asked = (given.get("rank", -1), given.get("world_size", -1))
    given.pop("init_method", None)
    given["store"] = store
    given["rank"], given["world_size"] = own
    if str(given.get("backend", "")).lower() == "mpi":
        given["backend"] = "gloo"
    if all(one in (-1, None, own_one) for one, own_one in zip(asked, own, strict=True)):
        return ""
    return f"the program requested rank {asked[0]} of {asked[1]}; it is rank {own[0]} of {own[1]}"


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
