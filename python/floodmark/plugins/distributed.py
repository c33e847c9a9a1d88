"""Plugin for `torch.distributed` with fake tensors: this process is rank r of N, alone.

Groups of every backend become torch's fake ones, which move nothing; `object_collectives` and
`ddp_reducer` of `world` replace the rest. After the block all patches are undone and its groups are
destroyed. Sees: `torch.distributed`. Knows nothing of memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from functools import wraps
from inspect import BoundArguments
from types import FunctionType, ModuleType
from typing import Any

from floodmark import torch_private, torch_private_distributed, torch_private_fakes
from floodmark.plugins import Plugin, Setting
from floodmark.recording.window_options import rank_of_process
from floodmark.world.collective_operators import WITH_RESULT, answers, done, with_result
from floodmark.world.ddp_reducer import replacements
from floodmark.world.launcher import launched_as
from floodmark.world.object_collectives import Objects
from floodmark.world.process_groups import begin_as, keep_name, register_fake_backend
from floodmark.world.replaced_names import replace_in_modules, with_arguments
from floodmark.world.spawn import FUNCTIONS, run_here
from floodmark.world.storages import share_storage
from floodmark.world.store import store_class

#: The backend name of the groups of a block.
_BACKEND = "floodmark"

#: torch's tables of registered backends.
_REGISTERS = (
    "backend_list",
    "default_device_backend_map",
    "backend_capability",
    "backend_type_map",
    "_plugins",
)

#: Methods of a mesh that torch calls for every operator and that read no values.
_QUICK = frozenset({"size", "ndim", "shape", "get_group", "get_rank", "device_type"})
_QUICK |= {"mesh_dim_names", "get_coordinate", "__hash__", "__eq__", "__enter__", "__exit__"}


class Distributed(Plugin):
    """Simulates one rank of a world with fake tensors."""

    name = "torch.distributed"
    library = "torch.distributed.distributed_c10d"

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self._c10d: Any = None
        self._wrappers: list[tuple[Any, Any]] = []

    def attach(self, library: ModuleType) -> None:
        """Patch `torch.distributed`."""
        self._c10d = c10d = library
        self._launch()
        self._register_backend()
        self._wrap_init()
        self._wrap_helper()
        for name in ("new_group", "new_subgroups", "new_subgroups_by_enumeration"):
            self._wrap(c10d, name, run_outside)
        self._wrap(c10d, "split_group", self._split)
        for name in WITH_RESULT:
            self._wrap(c10d, name, with_result)
        objects = Objects(c10d, self._say, has_bytes=False)
        for name, replacement in objects.functions().items():
            self._replace_later(c10d, name, replacement)
        bindings = torch_private_distributed.c10d_bindings()
        for name, replacement in replacements().items():
            self._replace_later(bindings, name, replacement)
        self._add_coalescing(bindings)
        self._replace_everywhere()
        for operator, answer in answers().items():
            self.setting.operators[operator] = answer
        self._know_parameters()
        # Groups are destroyed before the patches are undone.
        self._keep_groups()
        self.when_imported("torch.distributed.device_mesh", self._patch_mesh)
        self.when_imported("torch.multiprocessing.spawn", self._patch_spawn)
        for module in torch_private_distributed.SHARDING_MODULES:
            self.when_imported(module, self._patch_sharding)
        self.when_imported(torch_private_distributed.FLAT_PARAMETERS, self._patch_flat)

    def _say(self, what: str) -> None:
        self.setting.note(what[0].upper() + what[1:])

    # The world.

    def _launch(self) -> None:
        """Set the variables of `torchrun`, if the estimate has a world."""
        rank, world = self.setting.rank, self.setting.world
        if world is None or rank is None:
            return
        for name, value in launched_as(rank, world, self.setting.gpus).items():
            self.set_variable(name, value)

    def _own(self, given: dict[str, Any]) -> tuple[int, int] | None:
        """Rank and world size: of the estimate, of the call, or of the environment."""
        if self.setting.world is not None and self.setting.rank is not None:
            return self.setting.rank, self.setting.world
        asked = (given.get("rank"), given.get("world_size"))
        rank, world = (
            variable if one is None or one < 0 else int(one)
            for one, variable in zip(asked, rank_of_process()[:2], strict=True)
        )
        return None if rank is None or world is None else (rank, world)

    def _register_backend(self) -> None:
        """Register our backend, whose groups are torch's fake ones."""
        backend = self._c10d.Backend
        for name in _REGISTERS:
            if hasattr(backend, name):
                self.replace(backend, name, copy(getattr(backend, name)))
        self._replace_outer_backend(backend)
        register_fake_backend(self._c10d, _BACKEND)

    def _replace_outer_backend(self, backend: Any) -> None:
        """Remove an outer block's backend until the end: torch refuses a name twice."""
        name = _BACKEND.upper()
        outer = vars(backend).get(name)
        if outer is not None:
            delattr(backend, name)

        def restore() -> None:
            if hasattr(backend, name):
                delattr(backend, name)
            if outer is not None:
                setattr(backend, name, outer)

        self.on_exit(restore)

    def _add_coalescing(self, bindings: Any) -> None:
        """Add coalescing, which the fake groups of old versions lack."""
        if not hasattr(bindings, "FakeWork"):
            start, end = torch_private_distributed.coalescing(bindings)
            self.replace(*start, lambda _group, _device: None)
            self.replace(*end, lambda _group, _device: done())

    def _wrap_init(self) -> None:
        c10d = self._c10d
        bindings = torch_private_distributed.c10d_bindings()

        original = c10d.init_process_group

        def init_process_group(bound: BoundArguments) -> Any:
            given = bound.arguments
            own = self._own(given)
            if own is None:
                # torch reports the missing argument.
                return original(*bound.args, **bound.kwargs)
            store = store_class(bindings.Store, *own, self._say)()
            if other := begin_as(given, own, store):
                self._say(other)
            with torch_private.outside_modes():
                return original(*bound.args, **bound.kwargs)

        stand_in = with_arguments(original, init_process_group)
        self._replace_later(c10d, "init_process_group", stand_in)

    def _wrap_helper(self) -> None:
        """Replace every backend where torch creates groups; they keep their names."""
        c10d = self._c10d
        slot = torch_private_distributed.group_helper(c10d)
        original = getattr(*slot)

        def helper(bound: BoundArguments) -> Any:
            asked = bound.arguments["backend"]
            bound.arguments["backend"] = c10d.Backend(_BACKEND)
            for options in ("pg_options", "backend_options"):
                bound.arguments.pop(options, None)
            # Watching threads and eager connections need other processes.
            device = bound.arguments.pop("device_id", None)
            with torch_private.outside_modes():
                made = original(*bound.args, **bound.kwargs)
            group = keep_name(c10d, made, _named(c10d, asked))
            if group is not None and device is not None:
                group.bound_device_id = device
            return made

        self.replace(*slot, with_arguments(original, helper))
        self.replace(
            *torch_private_distributed.group_wrapper(c10d), lambda wrapped_pg, **_: wrapped_pg
        )

    def _know_parameters(self) -> None:
        """Some versions treat every fake parameter as uninitialized."""
        import torch.nn.parameter

        parameters: Any = torch.nn.parameter
        lazy = parameters.UninitializedParameter
        if not isinstance(torch_private.as_parameter(torch.empty(0)), lazy):
            return
        metaclass = torch_private.parameter_metaclass()
        check = metaclass.__instancecheck__

        def is_instance(kind: Any, value: Any) -> bool:
            if kind is lazy:
                return type.__instancecheck__(kind, value)
            return bool(check(kind, value))

        self.replace(metaclass, "__instancecheck__", is_instance)

    def _split(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Replace a split by a new group of the ranks in this rank's part."""
        c10d = self._c10d

        def split_group(bound: BoundArguments) -> Any:
            given = bound.arguments
            parent = given.get("parent_pg") or torch_private_distributed.default_group(c10d)
            own = c10d.get_rank(parent)
            for ranks in given.get("split_ranks") or ():
                if own in ranks:
                    members = [c10d.get_global_rank(parent, rank) for rank in ranks]
                    return c10d.new_group(members, backend=c10d.get_backend(parent))
            return None

        return with_arguments(original, split_group)

    def _keep_groups(self) -> None:
        """Destroy the block's groups at the end, and restore torch's state of groups."""
        c10d = self._c10d
        had_one = c10d.is_initialized()
        hook = sys.excepthook
        names = torch_private_distributed.GROUP_STATE
        before = {name: getattr(c10d, name) for name in names if hasattr(c10d, name)}

        def end() -> None:
            sys.excepthook = hook
            if had_one:
                return
            if c10d.is_initialized():
                with suppress(Exception):
                    c10d.destroy_process_group()
            for name, value in before.items():
                setattr(c10d, name, value)

        self.on_exit(end)

    # Meshes and processes.

    def _patch_mesh(self, module: ModuleType) -> None:
        """Create meshes outside the modes: they are tensors of ranks, which must have values."""
        kind: Any = getattr(module, "DeviceMesh", None)
        if kind is None:
            return
        self._wrap(module, "init_device_mesh", run_outside)
        owners = [kind, *torch_private_distributed.mesh_environments(module)]
        for owner in owners:
            for name, value in list(vars(owner).items()):
                if name not in _QUICK and not name.startswith("__"):
                    self._wrap_method(owner, name, value)
        begin = kind.__init__

        def init(bound: BoundArguments) -> None:
            if _is_fake(bound.arguments.get("mesh")):
                bound.arguments["mesh"] = self._ranks_of(bound.arguments["mesh"])
            with torch_private.outside_modes():
                begin(*bound.args, **bound.kwargs)

        self.replace(kind, "__init__", with_arguments(begin, init))
        self.replace(kind, "__getitem__", run_outside(kind.__getitem__))
        self._replace_everywhere()

    def _wrap_method(self, owner: Any, name: str, value: Any) -> None:
        if isinstance(value, FunctionType):
            self.replace(owner, name, run_outside(value))
        elif isinstance(value, property) and value.fget is not None:
            self.replace(owner, name, property(run_outside(value.fget), value.fset, value.fdel))
        elif isinstance(value, staticmethod | classmethod):
            self.replace(owner, name, type(value)(run_outside(value.__func__)))

    def _ranks_of(self, mesh: Any) -> Any:
        """Ranks in order, for a mesh whose tensor has no values."""
        import torch

        self.setting.note(
            "A mesh was given as a fake tensor: its ranks were assumed to be in order"
        )
        with torch_private.outside_modes():
            return torch.arange(mesh.numel(), dtype=torch.int).view(tuple(mesh.shape))

    def _patch_sharding(self, module: ModuleType) -> None:
        """DTensor computes global shapes with fake tensors: do so outside the modes, uncounted."""
        kind: Any = getattr(module, "ShardingPropagator", None)
        for name in torch_private_distributed.SHARDING_FUNCTIONS:
            if isinstance(vars(kind).get(name) if kind else None, FunctionType):
                self.replace(kind, name, run_outside(vars(kind)[name]))
                return

    def _patch_flat(self, module: ModuleType) -> None:
        """The older FSDP compares addresses, which fake tensors do not have."""

        def same_storage(one: Any, other: Any) -> bool:
            return share_storage(torch_private.local_part(one), torch_private.local_part(other))

        slot = torch_private_distributed.storage_comparison(module)
        if hasattr(*slot):
            self.replace(*slot, same_storage)

    def _patch_spawn(self, module: ModuleType) -> None:
        if self.setting.world is None:
            return
        rank = self.setting.rank or 0
        for name in FUNCTIONS:
            self._wrap(module, name, lambda original: run_here(original, rank, self._say))
        self._replace_everywhere()

    # How functions are replaced.

    def _wrap(self, module: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
        """Register a wrapper for a function, in every module that has imported it."""
        function = getattr(module, name, None)
        if function is not None:
            self._replace_later(module, name, wrapper(function))

    def _replace_later(self, module: Any, name: str, value: Any) -> None:
        function = getattr(module, name, None)
        if function is not None:
            self._wrappers.append((function, value))

    def _replace_everywhere(self) -> None:
        """Replace the registered functions in all modules, whatever name they have there."""
        pairs, self._wrappers = self._wrappers, []
        if pairs:
            replace_in_modules(pairs)
            back = [(new, old) for old, new in pairs]
            self.on_exit(lambda: replace_in_modules(back))


def run_outside(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, run outside all modes."""
    depth = torch_private.dispatch_depth()

    @wraps(function)
    def outside(*args: Any, **kwargs: Any) -> Any:
        if not depth():
            return function(*args, **kwargs)
        with torch_private.outside_modes():
            return function(*args, **kwargs)

    return outside


def _is_fake(value: Any) -> bool:
    return isinstance(value, torch_private_fakes.fake_tensor_class())


def _named(c10d: Any, asked: Any) -> Any:
    """The backend's name in torch's form."""
    if str(asked).lower() in ("", "none", "undefined"):
        return c10d.Backend("cpu:gloo,cuda:nccl")
    return asked
