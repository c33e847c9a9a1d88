"""Private names of `torch.distributed`; `torch_private.py` has the others.

| name | what for | seen in |
|---|---|---|
| `distributed_c10d._new_process_group_helper`, `._world` | a rank of a world | 2.4 to 2.15 |
| `distributed_c10d._process_group_color`, `._rank_not_in_group` | the same | 2.4 to 2.15 |
| `distributed_c10d._create_process_group_wrapper` | the same | 2.4 to 2.15 |
| `distributed_c10d._object_to_tensor` | objects between ranks that are processes | 2.11 |
| `ProcessGroup._wait_for_pending_works`, `FakeProcessGroup` | the same | 2.4 to 2.15 |
| `FakeProcessGroup._create_internal` | groups without communication | 2.11 |
| `ProcessGroup._start_coalescing`, `_end_coalescing` | the same | 2.4 and 2.11 |
| `distributed_c10d._get_default_group`, `._backend` | a rank of a world | 2.4 and 2.11 |
| `distributed_c10d._default_pg_init_method` | the same | 2.4 and 2.11 |
| `_register_comm_hook`, `_verify_params_across_processes` | DDP | 2.4 and 2.11 |
| `_register_builtin_comm_hook` | the same | 2.4 and 2.11 |
| `torch.distributed._compute_bucket_assignment_by_size` | the same | 2.4 and 2.11 |
| `ShardingPropagator._propagate_tensor_meta_non_cached` | DTensor | 2.11 |
| `ShardingPropagator._propagate_tensor_meta` | the same | 2.4 and 2.11 |
| `device_mesh._MeshEnv` | meshes with values | 2.4 and 2.11 |
| `fsdp._flat_param._same_storage` | FSDP | 2.4 and 2.11 |
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from floodmark.torch_private import Slot

#: Functions that `DistributedDataParallel` calls beside its reducer.
REGISTER_HOOK = "_register_comm_hook"
REGISTER_BUILTIN_HOOK = "_register_builtin_comm_hook"
VERIFY_PARAMETERS = "_verify_params_across_processes"
#: Variables of `distributed_c10d` that a group of a program may leave behind.
GROUP_STATE = ("_backend", "_default_pg_init_method")
#: Where DTensor computes the shapes of results, and its methods for that.
SHARDING_MODULES = (
    "torch.distributed.tensor._sharding_prop",
    "torch.distributed._tensor._sharding_prop",
)
SHARDING_FUNCTIONS = ("_propagate_tensor_meta_non_cached", "_propagate_tensor_meta")
#: The flat parameters of the older FSDP.
FLAT_PARAMETERS = "torch.distributed.fsdp._flat_param"


def c10d_bindings() -> Any:
    """Import and return the C++ part of `torch.distributed`."""
    return sys.modules["torch._C._distributed_c10d"]


def process_groups(c10d: Any) -> tuple[dict[Any, Any], dict[Any, str]]:
    """torch's tables of groups: backend and store, and the backends by device."""
    world = c10d._world
    return world.pg_map, world.pg_backend_config


def is_outside(c10d: Any, group: Any) -> bool:
    """Whether this rank does not belong to the group."""
    return bool(c10d._rank_not_in_group(group))


def default_group(c10d: Any) -> Any:
    """The group of all ranks."""
    return c10d._get_default_group()


def is_coalescing(c10d: Any, group: Any) -> bool:
    """Whether torch is coalescing the calls of a group."""
    return group in c10d._world.pg_coalesce_state


def group_helper(c10d: Any) -> Slot:
    """The function that creates every group."""
    return c10d, "_new_process_group_helper"


def group_wrapper(c10d: Any) -> Slot:
    """The function that wraps groups to check their calls."""
    return c10d, "_create_process_group_wrapper"


def group_color(c10d: Any) -> Slot:
    """The function that returns the color of a split."""
    return c10d, "_process_group_color"


def object_to_tensor(c10d: Any) -> Callable[..., Any]:
    """The function that turns an object into a tensor of bytes and a tensor of their number."""
    found: Callable[..., Any] = c10d._object_to_tensor
    return found


def fake_group_maker(bindings: Any) -> Callable[[int, int], Any]:
    """A function that creates a group without communication from a rank and a size."""
    fake = bindings.FakeProcessGroup
    make: Callable[[int, int], Any] = getattr(fake, "_create_internal", fake)
    return make


def coalescing(bindings: Any) -> tuple[Slot, Slot]:
    """The methods of a group that begin and end coalescing."""
    group = bindings.ProcessGroup
    return (group, "_start_coalescing"), (group, "_end_coalescing")


def wait_for_pending_works(group: Any) -> None:
    """Wait until a group's watchdog has marked its collectives as complete."""
    group._wait_for_pending_works()


def bucket_assignment(torch: Any) -> Callable[..., Any]:
    """The function that assigns parameters to the buckets of `DistributedDataParallel`."""
    assign: Callable[..., Any] = torch.distributed._compute_bucket_assignment_by_size
    return assign


def mesh_environments(device_mesh: Any) -> list[Any]:
    """The classes other than `DeviceMesh` that create meshes."""
    found = getattr(device_mesh, "_MeshEnv", None)
    return [] if found is None else [found]


def storage_comparison(flat_parameters: Any) -> Slot:
    """The function of FSDP that returns whether two tensors share a storage."""
    return flat_parameters, "_same_storage"
