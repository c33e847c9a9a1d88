"""Process groups of a simulated rank: their creation, their members and their backend's name.

Sees: `torch.distributed.distributed_c10d`. Knows nothing of what a group does.
"""

from __future__ import annotations

from typing import Any

from floodmark import torch_private_distributed


def begin_as(given: dict[str, Any], own: tuple[int, int], store: Any) -> str:
    """Change the arguments of `init_process_group` to those of rank `own[0]` of `own[1]`.

    Returns a note if the program requested another rank, otherwise an empty text.
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
    """Register a group under the backend that the program requested, not the one that it got.

    Returns the group; None if this process is not one of its ranks.
    """
    group = made[0] if isinstance(made, tuple) else made
    groups, backends = torch_private_distributed.process_groups(c10d)
    if group not in groups:
        return None
    _, prefix_store = groups[group]
    groups[group] = (backend, prefix_store)
    backends[group] = str(c10d.BackendConfig(backend))
    return group


def register_fake_backend(c10d: Any, name: str) -> None:
    """Register a backend of this name whose groups are torch's fake ones."""
    create = torch_private_distributed.fake_group_maker(torch_private_distributed.c10d_bindings())

    def make(options: Any, _own_options: Any) -> Any:
        return create(options.group_rank, options.group_size)

    c10d.Backend.register_backend(name, make, extended_api=True, devices=["cpu", "cuda"])


class Members:
    """The ranks of a group, by the arguments of a collective."""

    def __init__(self, c10d: Any) -> None:
        self._c10d = c10d

    def size(self, given: dict[str, Any]) -> int:
        """The number of ranks in the group."""
        return int(self._c10d.get_world_size(given.get("group")))

    def rank(self, given: dict[str, Any]) -> int:
        """The rank of this process in the group."""
        return int(self._c10d.get_rank(given.get("group")))

    def is_outside(self, given: dict[str, Any]) -> bool:
        """Whether this process does not belong to the group."""
        return torch_private_distributed.is_outside(self._c10d, given.get("group"))

    def is_it(self, given: dict[str, Any], side: str) -> bool:
        """Whether `src` or `dst` (or `group_src` …) names this rank."""
        in_group = given.get(f"group_{side}")
        if in_group is not None:
            return bool(in_group == self.rank(given))
        return bool((given.get(side) or 0) == self._c10d.get_rank())

    def peer(self, given: dict[str, Any], side: str) -> int:
        """The rank within the group that `src` or `dst` (or `group_src` …) names."""
        in_group = given.get(f"group_{side}")
        if in_group is not None:
            return int(in_group)
        group = given.get("group") or torch_private_distributed.default_group(self._c10d)
        return int(self._c10d.get_group_rank(group, given.get(side) or 0))
