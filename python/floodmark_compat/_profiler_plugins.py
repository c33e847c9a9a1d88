"""The plugins of `floodmark_compat.memory_profiler`, under that tool's names.

They are floodmark's own plugins. `DistributedPlugin` also answers a program that has no process
group: collectives do nothing, and groups are stand-ins. Sees: `torch.distributed`. Knows nothing of
memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from floodmark import torch_private, torch_private_fakes
from floodmark.plugins import Plugin
from floodmark.plugins.distributed import Distributed
from floodmark.plugins.megatron import Megatron
from floodmark.plugins.transformer_engine import TransformerEngine
from floodmark.world.collective_operators import done

#: Collectives, and what they return without a group when nothing is to be waited for.
_COLLECTIVES = (
    "all_reduce",
    "all_reduce_coalesced",
    "broadcast",
    "reduce",
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "all_to_all",
    "all_to_all_single",
    "gather",
    "scatter",
    "barrier",
    "monitored_barrier",
    "send",
    "broadcast_object_list",
    "send_object_list",
)


class TracerPlugin(Plugin):
    """The base of a program's own plugins, given as `MemoryTracer(plugins=[Mine])`.

        class Mine(TracerPlugin):
            library = "fancy_layers"

            def attach(self, library):
                self.patch(library, "receive", lambda like: torch.empty_like(like))

    `attach` is called when the library is imported, at once if it is; a library that is not
    installed is skipped. At the end of the block all is as it was.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" not in vars(cls):
            cls.name = cls.__name__

    def patch(self, owner: Any, name: str, simulate: Callable[..., Any]) -> Callable[..., Any]:
        """Let `simulate` answer calls of `owner.name` that are given fake tensors.

        Other calls go to the original, which is returned.
        """
        original: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(original)
        def patched(*args: Any, **kwargs: Any) -> Any:
            chosen = simulate if _has_fake(args, kwargs) else original
            return chosen(*args, **kwargs)

        self.replace(owner, name, patched)
        return original


class DistributedPlugin(Distributed):
    """`torch.distributed`: this process is one rank, and no other is needed.

    With a process group, collectives allocate what they would on a GPU. Without one they return at
    once, tensors stay as they are, and `new_group` gives a stand-in that every call takes.
    """

    def attach(self, library: ModuleType) -> None:
        """Patch it."""
        super().attach(library)
        for name in _COLLECTIVES:
            self._wrap(library, name, self._or(_nothing))
        for name in ("isend", "irecv"):
            self._wrap(library, name, self._or(lambda *_, **__: done()))
        self._wrap(library, "recv", self._or(_received))
        self._wrap(library, "all_gather_object", self._or(_gathered))
        self._wrap(library, "batch_isend_irecv", self._or(_batched))
        operation = library.P2POp
        init = self._or(_operation, is_collective=False)(operation.__init__)
        self.replace(operation, "__init__", init)
        answers: dict[str, Callable[..., Any]] = {
            "new_group": self._new_group,
            "get_rank": self._rank,
            "get_world_size": self._world_size,
            "get_process_group_ranks": self._ranks,
        }
        for name, answer in answers.items():
            self._wrap(library, name, self._or(answer, is_collective=False))
        self._replace_everywhere()

    def _group(self, group: Any) -> Group:
        """A group of a program without any: one of `new_group`, or all ranks."""
        if isinstance(group, Group):
            return group
        return Group(range(self.setting.world or 1), self.setting.rank or 0)

    def _new_group(self, ranks: Any = None, *_: Any, **__: Any) -> Group:
        everyone = self._group(None)
        return Group(everyone.ranks if ranks is None else ranks, everyone.own)

    def _rank(self, group: Any = None) -> int:
        return self._group(group).rank()

    def _ranks(self, group: Any) -> list[int]:
        return list(self._group(group).ranks)

    def _world_size(self, group: Any = None) -> int:
        return self._group(group).size()

    def _or(
        self, answer: Callable[..., Any], *, is_collective: bool = True
    ) -> Callable[[Any], Callable[..., Any]]:
        """Without a process group, `answer` instead of the original."""

        def wrapper(original: Any) -> Callable[..., Any]:
            @functools.wraps(original)
            def collective(*args: Any, **kwargs: Any) -> Any:
                if self._c10d.is_initialized():
                    return original(*args, **kwargs)
                if is_collective:
                    self.setting.note("Collectives without a process group did nothing")
                return answer(*args, **kwargs)

            return collective

        return wrapper


class Group:
    """What `new_group` gives a program without a process group: ranks, and which of them is us.

    A process that is not one of them is rank -1, as with torch.
    """

    def __init__(self, ranks: Iterable[int], own: int) -> None:
        self.ranks = tuple(ranks)
        self.own = own

    def rank(self) -> int:
        """The place of this process in it."""
        return self.ranks.index(self.own) if self.own in self.ranks else -1

    def size(self) -> int:
        """How many ranks it has."""
        return len(self.ranks)


class P2PCommunicationPlugin(Megatron):
    """megatron-core: pipelines send and receive through `torch.distributed`, which is answered."""


class TransformerEnginePlugin(TransformerEngine):
    """Transformer Engine: its own layers, whose kernels only allocate."""


#: Those that every tracer has, instead of floodmark's of the same names.
DEFAULTS: tuple[type[Plugin], ...] = (
    DistributedPlugin,
    P2PCommunicationPlugin,
    TransformerEnginePlugin,
)


def _nothing(*_: Any, async_op: bool = False, **__: Any) -> Any:
    return done() if async_op else None


def _received(_tensor: Any, src: int | None = None, **_: Any) -> int:
    return src or 0


def _gathered(object_list: list[Any], obj: Any, **_: Any) -> None:
    object_list[:] = [obj] * len(object_list)


def _batched(p2p_op_list: list[Any]) -> list[Any]:
    return [done() for _ in p2p_op_list]


def _operation(
    self: Any,
    op: Any,
    tensor: Any,
    peer: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_peer: int | None = None,
) -> None:
    """`P2POp` without a process group."""
    self.op, self.tensor, self.group, self.tag = op, tensor, group, tag
    self.peer = group_peer if peer is None else peer
    self.group_peer = peer if group_peer is None else group_peer


def _has_fake(args: Any, kwargs: Any) -> bool:
    leaves = torch_private.trees().tree_leaves((args, kwargs))
    return any(map(torch_private_fakes.fake_tensor_module().is_fake, leaves))
