"""Checkpoints with `use_reentrant=True` whose inputs have no gradient.

Such a checkpoint computes gradients only where one of its inputs has one, and a frozen embedding
gives none: all gradients in it would be missing. Sees: `torch.utils.checkpoint`. Talks to: the
changes that freeze what comes before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from floodmark.changes.change import Change


def watch_checkpoints(change: Change, torch: Any, on_missing: Callable[[], None]) -> None:
    """Call `on_missing` before each one that lacks a gradient while the change is applied, and give
    its first input one."""
    from torch.utils.checkpoint import CheckpointFunction

    original = CheckpointFunction.apply

    def apply(*args: Any) -> Any:
        floats = [one for one in args if torch.is_tensor(one) and one.is_floating_point()]
        has_gradient = any(one.requires_grad for one in floats)
        if floats and not has_gradient and change.target and torch.is_grad_enabled():
            on_missing()
            # That of other inputs, such as a mask, might choose another kernel.
            first = floats[0]
            args = tuple(one.detach().requires_grad_() if one is first else one for one in args)
        return original(*args)

    change.replace(CheckpointFunction, "apply", staticmethod(apply))
