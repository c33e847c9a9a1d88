"""The two kinds of outermost calls of modules: those that train, and all others."""

from __future__ import annotations

import enum
from typing import Any


class Calls(enum.Flag):
    """The outermost calls of modules that a change is for."""

    #: Of a module in training mode with parameters that are trained, with gradients on.
    TRAINING = enum.auto()
    #: All others: evaluation, generation, models that are not trained.
    INFERENCE = enum.auto()
    ALL = TRAINING | INFERENCE


def calls_of(torch: Any, module: Any) -> Calls:
    """The kind of a call of a module, now."""
    is_trained = (
        torch.is_grad_enabled()
        and module.training
        and any(one.requires_grad for one in module.parameters())
    )
    return Calls.TRAINING if is_trained else Calls.INFERENCE


def is_in_training_mode(module: Any) -> str:
    """Why a change of programs that train nothing leaves a call alone that may train."""
    return (
        f"`{type(module).__name__}` is called in training mode; if it is not trained, call `eval()`"
    )
