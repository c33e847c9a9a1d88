"""Optimizer states in 8 bits: `optimizer-states=8bit`.

Adam and AdamW of torch become those of bitsandbytes or torchao, whichever is installed; neither is
needed otherwise, and neither is imported before the program makes such an optimizer. Sees: the
constructors of both classes.
"""

from __future__ import annotations

import importlib
import inspect
from functools import wraps
from typing import Any

from floodmark.changes.change import Change, is_installed
from floodmark.changes.pasted_code import callers, current_trainer, trainer_name

#: The libraries, and the module of each that has the optimizers.
_MODULES = {"bitsandbytes": "bitsandbytes.optim", "torchao": "torchao.optim"}
#: What the `Trainer` of transformers calls their optimizers.
_TRAINER_NAMES = {"bitsandbytes": "adamw_bnb_8bit", "torchao": "adamw_torch_8bit"}
#: What all of them take.
_TAKEN = ("params", "lr", "betas", "eps", "weight_decay")
#: What may be left out: how torch updates, not what.
_HOW = ("foreach", "fused")


class EightBitStates(Change):
    """Keeps the states of Adam in 8 bits, with a scale for each block of them."""

    name = "optimizer-states"
    numerics = "changed"

    def attach(self, torch: Any) -> None:
        for kind in (torch.optim.Adam, torch.optim.AdamW):
            self._wrap(torch, kind)

    def _wrap(self, torch: Any, kind: Any) -> None:
        init = vars(kind)["__init__"]
        signature = inspect.signature(init)

        @wraps(init)
        def changed(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            # A subclass calls this too, with what it was given.
            if type(optimizer) is kind:
                bound = signature.bind(optimizer, *args, **kwargs)
                bound.apply_defaults()
                arguments = dict(list(bound.arguments.items())[1:])
                if self._becomes_eight_bit(torch, optimizer, arguments):
                    return
            init(optimizer, *args, **kwargs)

        self.replace(kind, "__init__", changed)

    def _becomes_eight_bit(self, torch: Any, optimizer: Any, arguments: dict[str, Any]) -> bool:
        """Make it an optimizer of the library, if there is one; the program has this object."""
        kind = type(optimizer)
        taken = {name: arguments.pop(name) for name in _TAKEN}
        others = [name for name, value in arguments.items() if value and name not in _HOW]
        if others:
            self.reason = f"`{kind.__name__}` has `{others[0]}`, which 8-bit optimizers have not"
            return False
        if torch.is_tensor(taken["lr"]):
            self.reason = "the learning rate is a tensor"
            return False
        found = self._class_like(kind.__name__)
        if found is None:
            return False
        module, replacement = found
        optimizer.__class__ = replacement
        replacement.__init__(optimizer, **taken)
        self.target = f"`{kind.__name__}`, by {module.partition('.')[0]}"
        self.patch = _patch(module, kind.__name__, replacement.__name__)
        return True

    def _class_like(self, name: str) -> tuple[str, Any] | None:
        """The first library that is installed and can be imported, and its class."""
        installed = [library for library in _MODULES if is_installed(library)]
        if not installed:
            self.reason = "neither `bitsandbytes` nor `torchao` is installed"
        for library in installed:
            module = _MODULES[library]
            try:
                return module, getattr(importlib.import_module(module), f"{name}8bit")
            except Exception as error:
                self.reason = f"`{module}` cannot be imported here: {error!r}"
        return None

    def nothing_found(self) -> str:
        return "the program makes no `Adam` or `AdamW` of `torch.optim`"


def _patch(module: str, kind: str, replacement: str) -> str:
    trainer = current_trainer()
    if trainer is not None:
        name = trainer_name(trainer, next(callers(), None))
        optim = _TRAINER_NAMES[module.partition(".")[0]]
        return f'# before `{name}.train()`\n{name}.args.optim = "{optim}"\n'
    return (
        "# before the optimizer is made\n"
        f"from {module} import {replacement}\n"
        f"torch.optim.{kind} = {replacement}\n"
    )
