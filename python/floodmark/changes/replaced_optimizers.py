"""Adam and AdamW that become other optimizers: the base of such changes.

The optimizer that the program has just made becomes one of another class. It stays the same object,
so schedulers, trainers and hooks have the new one. It stays that at the end: its states are others.
Sees: the constructors of both classes.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import wraps
from typing import Any

from floodmark.changes.change import Change
from floodmark.changes.optimizer_parameters import listed
from floodmark.changes.pasted_code import names_in_program

#: What every replacement takes.
_TAKEN = ("params", "lr", "betas", "eps", "weight_decay")
#: How torch updates, not what.
_HOW = ("foreach", "fused")


@dataclass(frozen=True)
class Replacement:
    """What an optimizer becomes."""

    kind: Any
    #: What was replaced by what.
    target: str
    #: Code that does the same.
    patch: str
    #: Whether it takes `foreach` and `fused`.
    takes_how: bool = False


class ReplacedOptimizer(Change):
    """Turns the Adam and AdamW of torch into other optimizers."""

    #: What the replacement is called, for what it has no option for.
    _title = ""

    def attach(self, torch: Any) -> None:
        for kind in (torch.optim.Adam, torch.optim.AdamW):
            self._wrap(torch, kind)

    def _wrap(self, torch: Any, kind: Any) -> None:
        init = vars(kind)["__init__"]
        signature = inspect.signature(init)

        @wraps(init)
        def changed(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            # A subclass calls this too, with what it was given.
            if type(optimizer) is not kind:
                init(optimizer, *args, **kwargs)
                return
            bound = signature.bind(optimizer, *args, **kwargs)
            bound.arguments["params"] = listed(torch, bound.arguments["params"])
            if not self._becomes_another(torch, optimizer, _arguments(bound)):
                init(*bound.args, **bound.kwargs)

        self.replace(kind, "__init__", changed)

    def _becomes_another(self, torch: Any, optimizer: Any, arguments: dict[str, Any]) -> bool:
        """Make it another optimizer, if there is one; the program has this object."""
        kind = type(optimizer)
        taken = {name: arguments.pop(name) for name in _TAKEN}
        how = {name: arguments.pop(name) for name in _HOW if name in arguments}
        others = [name for name, value in arguments.items() if value]
        if others:
            self.reason = f"`{others[0]}` of `{kind.__name__}` has no counterpart in {self._title}"
            return False
        if torch.is_tensor(taken["lr"]):
            self.reason = "the learning rate is a tensor"
            return False
        try:
            found = self._replacement(torch, kind, taken["params"])
            if found is None:
                return False
            optimizer.__class__ = found.kind
            found.kind.__init__(optimizer, **taken, **(how if found.takes_how else {}))
        except Exception as error:
            # Where the arguments are wrong, the program's own class says so next.
            optimizer.__class__ = kind
            vars(optimizer).clear()
            self.reason = f"`{kind.__name__}` could not be replaced: {error!r}"
            return False
        self.target, self.patch = found.target, found.patch
        return True

    def _replacement(self, torch: Any, kind: Any, params: Any) -> Replacement | None:
        """What an optimizer of these parameters becomes; None, and the reason, if nothing."""
        raise NotImplementedError

    def nothing_found(self) -> str:
        return "the program makes no `Adam` or `AdamW` of `torch.optim`"


def assignments(kind: Any, replacement: str) -> str:
    """Code after which the program makes optimizers of another class."""
    names = (f"torch.optim.{kind.__name__}", *names_in_program(kind))
    return "".join(f"{name} = {replacement}\n" for name in names)


def _arguments(bound: inspect.BoundArguments) -> dict[str, Any]:
    """All arguments of a constructor but the object, with their defaults."""
    full = inspect.BoundArguments(bound.signature, bound.arguments.copy())
    full.apply_defaults()
    return dict(list(full.arguments.items())[1:])
