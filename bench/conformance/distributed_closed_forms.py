"""The memory of a rank, computed from the model's shapes and the rule that splits it.

Nothing here looks at an estimate. Sees: `distributed_programs`' model, on `meta`. All sizes are of
float32, and rounded as CUDA's allocator rounds.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

import distributed_programs as programs
import torch

Shape = tuple[int, ...]
CATEGORIES = ("parameter", "gradient", "optimizer state")


def _bytes(count: int) -> int:
    """This many numbers, in blocks of 512 bytes."""
    return -(-count * 4 // 512) * 512


def _sum(shapes: Iterable[Shape]) -> int:
    return sum(_bytes(prod(shape)) for shape in shapes)


def _shapes(module: Any) -> list[Shape]:
    return [tuple(parameter.shape) for parameter in module.parameters()]


def _model(stage: int = 0, stages: int = 1) -> Any:
    with torch.device("meta"):
        return programs.Llama(programs.SIZE, stage, stages)


def _units(model: Any) -> list[list[Shape]]:
    """The modules for which `fully_shard` was called: each layer, and the rest."""
    blocks = [_shapes(block) for block in model.blocks]
    inside = {id(p) for block in model.blocks for p in block.parameters()}
    rest = [tuple(p.shape) for p in model.parameters() if id(p) not in inside]
    return [*blocks, rest]


def _padded(shape: Shape, world: int) -> Shape:
    """The shape of a shard: rows are split in equal parts, and the last ones are padded."""
    return (-(-shape[0] // world), *shape[1:])


def _share(shape: Shape, world: int, rank: int) -> Shape:
    """The shape of a shard without padding."""
    part = -(-shape[0] // world)
    return (max(0, min(part, shape[0] - rank * part)), *shape[1:])


def fsdp2(world: int, rank: int) -> dict[str, int]:
    """Parameters are padded; the gradients of a unit lie in one buffer; states are not padded."""
    units = _units(_model())
    padded = [[_padded(shape, world) for shape in unit] for unit in units]
    shares = [_share(shape, world, rank) for unit in units for shape in unit]
    return {
        "parameter": sum(_sum(unit) for unit in padded),
        "gradient": sum(_bytes(sum(prod(shape) for shape in unit)) for unit in padded),
        "optimizer state": 2 * _sum(shares),
    }


def hsdp(_world: int, rank: int) -> dict[str, int]:
    """Shards within two."""
    return fsdp2(2, rank % 2)


def tp(world: int, _rank: int) -> dict[str, int]:
    """Linear layers of a block are split, everything else is whole."""
    shapes = []
    for name, parameter in _model().named_parameters():
        shape = tuple(parameter.shape)
        if "blocks." in name and "norm" not in name:
            at = 1 if name.endswith(("o.weight", "down.weight")) else 0
            shape = tuple(size // world if i == at else size for i, size in enumerate(shape))
        shapes.append(shape)
    return _whole(shapes)


def _whole(shapes: list[Shape]) -> dict[str, int]:
    total = _sum(shapes)
    return {"parameter": total, "gradient": total, "optimizer state": 2 * total}


def ddp(_world: int, _rank: int) -> dict[str, int]:
    """Everything on every rank."""
    return _whole(_shapes(_model()))


def pipeline(world: int, rank: int) -> dict[str, int]:
    """The layers of a stage."""
    return _whole(_shapes(_model(rank, world)))


FORMS = {
    "ddp": ddp,
    "fsdp2": fsdp2,
    "hsdp": hsdp,
    "tp": tp,
    "gpipe": pipeline,
    "one_f_one_b": pipeline,
}
