"""The repeated blocks of a program are those that `advise` finds in its trace: one fixture."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from support.checkout import FIXTURES
from torch import nn

from floodmark.changes.repeated_blocks import repeated_blocks

MODELS = json.loads((FIXTURES / "repeated_blocks.json").read_text())


def model_of(modules: dict[str, str]) -> nn.Module:
    """A module for each path, of a class with that name; with a parameter, unless it is a list."""
    root = nn.Module()
    classes: dict[str, Any] = {}
    for path, name in sorted(modules.items()):
        module: nn.Module
        if name in ("ModuleList", "Sequential"):
            module = getattr(nn, name)()
        else:
            module = classes.setdefault(name, type(name, (nn.Module,), {}))()
            module.weight = nn.Parameter(torch.empty(8))
        parent, _, own = path.rpartition(".")
        root.get_submodule(parent).add_module(own, module)
    return root


@pytest.mark.parametrize("model", MODELS, ids=[model["name"] for model in MODELS])
def test_the_blocks_of_a_program_are_those_of_its_trace(model):
    found = repeated_blocks(torch, model_of(model["modules"]))
    blocks = None if found is None else {"class": found.kind, "count": len(found.blocks)}
    assert blocks == model["blocks"]
