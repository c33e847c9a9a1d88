"""The repeated blocks of a model: what checkpointing and sharding are applied to.

A block is a module with modules of its own that lies in a `ModuleList` or a `Sequential` beside
others of its class; a `Sequential` is one only where no other class repeats. Blocks inside other
repeated blocks (the experts of a layer) are part of those. `docs/design/plan.md` has the rules,
which `repeated_blocks.rs` follows for traces. Sees: a tree of modules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: A class with fewer blocks is taken only where there is no other.
_MANY = 4


@dataclass(frozen=True)
class RepeatedBlocks:
    """All blocks of one class, in the order of the model."""

    kind: str
    blocks: list[Any]
    #: The names of their containers, as in `named_modules()`; each once.
    containers: list[str]

    def described(self, count: int) -> str:
        """`12 of 24 × GPT2Block (transformer.h)`."""
        total = len(self.blocks)
        number = f"{total}" if count == total else f"{count} of {total}"
        is_named = len(self.containers) == 1 and self.containers[0]
        where = f" ({self.containers[0]})" if is_named else ""
        return f"{number} × {self.kind}{where}"

    def expression(self, model: str, limits: str = "") -> str:
        """Python for some of the blocks: `list(model.h)[:4]`."""
        if len(self.containers) == 1:
            return f"list({indexed(joined(model, self.containers[0]))}){limits}"
        return f'[m for m in {model}.modules() if type(m).__name__ == "{self.kind}"]{limits}'


def joined(model: str, path: str) -> str:
    """The qualified name of a module, behind the name of the model."""
    return f"{model}.{path}" if path else model


def indexed(path: str) -> str:
    """`model.layers.0.blocks` is `model.layers[0].blocks` in Python."""
    first, *rest = path.split(".")
    return first + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in rest)


def repeated_blocks(torch: Any, root: Any) -> RepeatedBlocks | None:
    """The outermost class of blocks with the most parameters; None where nothing repeats."""
    lists = (torch.nn.ModuleList, torch.nn.Sequential)
    for no_blocks in (lists, torch.nn.ModuleList):
        groups = _groups(root, lists, no_blocks)
        for least in (_MANY, 2):
            large = [group for group in groups if len(group.blocks) >= least]
            outermost = [group for group in large if not _is_inside(group, large)]
            if outermost:
                return max(outermost, key=_weight)
    return None


def _groups(root: Any, lists: Any, no_blocks: Any) -> list[RepeatedBlocks]:
    found: dict[type, dict[int, Any]] = {}
    containers: dict[type, list[str]] = {}
    for name, container in root.named_modules():
        if not isinstance(container, lists):
            continue
        for child in container.children():
            is_block = not isinstance(child, no_blocks) and any(True for _ in child.children())
            if is_block:
                found.setdefault(type(child), {})[id(child)] = child
                names = containers.setdefault(type(child), [])
                if name not in names:
                    names.append(name)
    return [
        RepeatedBlocks(_class_name(kind), list(blocks.values()), containers[kind])
        for kind, blocks in found.items()
    ]


def _class_name(kind: type) -> str:
    """The name of a class; `fully_shard` puts one of its own above that of the program."""
    own, *bases = kind.__mro__
    is_sharded = bool(bases) and bases[0].__name__ == "FSDPModule"
    return (bases[1] if is_sharded else own).__name__


def _is_inside(group: RepeatedBlocks, others: list[RepeatedBlocks]) -> bool:
    """Whether a block of the group lies in a block of another one."""
    first = group.blocks[0]
    return any(
        first is inner
        for other in others
        if other is not group
        for block in other.blocks
        for inner in block.modules()
    )


def _weight(group: RepeatedBlocks) -> tuple[int, int]:
    numbers = (one.numel() for block in group.blocks for one in block.parameters())
    return sum(numbers), len(group.blocks)
