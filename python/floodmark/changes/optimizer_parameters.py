"""The parameters that an optimizer is made with, and the model that has them.

Changes that replace parameters (shards, adapters) or treat some of them in another way read the
argument of the constructor here. Sees: that argument, and the modules and optimizers that are
alive.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from floodmark import torch_private


def listed(torch: Any, params: Any) -> Any:
    """The argument of an optimizer, with lists for generators: it can be read more than once."""
    if torch.is_tensor(params):
        return params
    found = list(params)
    for one in found:
        if isinstance(one, dict) and not torch.is_tensor(one["params"]):
            # torch does the same; the program may keep the dict.
            one["params"] = list(one["params"])
    return found


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The argument of an optimizer with every tensor, or what stands for it, changed."""
    if isinstance(value, dict):
        return {**value, "params": mapped(value["params"], change)}
    if isinstance(value, list):
        return [mapped(one, change) for one in value]
    if isinstance(value, tuple):
        # `named_parameters()`.
        return (value[0], mapped(value[1], change))
    return change(value)


def replaced(params: list[Any], change: Callable[[Any], list[Any]]) -> list[Any]:
    """The argument of an optimizer with several tensors, or none, in place of each.

    A group that would have none keeps its own: torch wants parameters.
    """
    found: list[Any] = []
    for one in params:
        if isinstance(one, dict):
            inner = one["params"]
            found.append(
                {**one, "params": replaced(inner if isinstance(inner, list) else [inner], change)}
            )
        elif isinstance(one, tuple):
            found += [(f"{one[0]}.{at}", new) for at, new in enumerate(change(one[1]))]
        else:
            found += change(one)
    return found or params


def tensors_in(value: Any) -> list[Any]:
    """The tensors in the argument of an optimizer."""
    found: list[Any] = []
    mapped(value, found.append)
    return found


def model_of(torch: Any, given: list[Any]) -> Any:
    """The outermost module that has most of these parameters; None where none has any."""
    wanted = {id(one) for one in given}
    modules = [one for one in gc.get_objects() if issubclass(type(one), torch.nn.Module)]
    inner = {id(child) for one in modules for child in torch_private.children(one).values()}
    best, most = None, 0
    for module in modules:
        if id(module) in inner:
            continue
        count = sum(id(one) in wanted for one in module.parameters())
        if count > most:
            best, most = module, count
    return best


def optimizers_of(torch: Any, parameters: list[Any]) -> list[Any]:
    """The optimizers that have some of these parameters."""
    wanted = set(map(id, parameters))
    return [
        one
        for one in gc.get_objects()
        if issubclass(type(one), torch.optim.Optimizer)
        and any(id(of) in wanted for of in tensors_in(getattr(one, "param_groups", [])))
    ]
