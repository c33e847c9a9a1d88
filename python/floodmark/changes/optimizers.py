"""Changes of optimizers: `foreach=off`, `fused`, `free-gradients`.

Sees: the constructors of `torch.optim`, `zero_grad` and `step`. Optimizers of other libraries are
left alone.
"""

from __future__ import annotations

import inspect
from functools import wraps
from typing import Any

from floodmark.changes.change import Change, NotAChangeError, calling_line


class _Constructors(Change):
    """Makes optimizers of torch with other arguments."""

    #: The argument that decides whether an optimizer of torch is concerned.
    _keyword = ""

    def attach(self, torch: Any) -> None:
        for kind in list(vars(torch.optim).values()):
            is_own = isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)
            init = vars(kind).get("__init__") if is_own else None
            if init is not None and self._keyword in inspect.signature(init).parameters:
                self._wrap(kind, init)

    def _wrap(self, kind: Any, init: Any) -> None:
        @wraps(init)
        def changed(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            # A subclass calls this too, with what it was given.
            if type(optimizer) is kind:
                self._change(kind, kwargs)
            init(optimizer, *args, **kwargs)

        self.replace(kind, "__init__", changed)

    def _change(self, kind: Any, kwargs: dict[str, Any]) -> None:
        """Change the arguments of a constructor."""
        raise NotImplementedError

    def _applied(self, kind: Any, code: str) -> None:
        self.target = f"`{kind.__name__}`"
        line = calling_line("torch")
        comment = f"  # {line}" if line else ""
        self.patch = f"torch.optim.{kind.__name__}(…, {code}){comment}\n"

    def nothing_found(self) -> str:
        return "the program makes no optimizer of `torch.optim` that has the option"


class Foreach(_Constructors):
    """Updates one parameter after the other: no temporary copies of all of them at once."""

    name = "foreach"
    slows = True
    _keyword = "foreach"

    def __init__(self, argument: str = "") -> None:
        super().__init__(argument or "off")
        if self.argument != "off":
            raise NotAChangeError("`foreach` takes `off`")

    def _change(self, kind: Any, kwargs: dict[str, Any]) -> None:
        if kwargs.get("fused"):
            self.reason = f"`{kind.__name__}` is fused already, which needs no temporary copies"
        elif kwargs.get("foreach") is False:
            self.reason = f"`{kind.__name__}` has `foreach=False` already"
        else:
            kwargs["foreach"] = False
            self._applied(kind, "foreach=False")


class Fused(_Constructors):
    """Updates all parameters in one kernel: no temporary copies, and fewer launches."""

    name = "fused"
    numerics = "rounding"
    _keyword = "fused"

    def _change(self, kind: Any, kwargs: dict[str, Any]) -> None:
        if kwargs.get("fused"):
            self.reason = f"`{kind.__name__}` is fused already"
            return
        kwargs["fused"] = True
        kwargs["foreach"] = False
        self._applied(kind, "fused=True")


class FreeGradients(Change):
    """Frees gradients after each step of an optimizer, not only before the next backward pass."""

    name = "free-gradients"

    def attach(self, torch: Any) -> None:
        from torch.optim import optimizer as optimizers

        self._zeroed: set[int] = set()
        original = torch.optim.Optimizer.zero_grad
        after_module = torch.nn.Module.zero_grad

        @wraps(original)
        def zero_grad(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            self._zeroed.add(id(optimizer))
            original(optimizer, *args, **kwargs)

        @wraps(after_module)
        def module_zero_grad(module: Any, *args: Any, **kwargs: Any) -> None:
            self._zeroed.add(0)
            after_module(module, *args, **kwargs)

        self.replace(torch.optim.Optimizer, "zero_grad", zero_grad)
        self.replace(torch.nn.Module, "zero_grad", module_zero_grad)

        def free(optimizer: Any, *_: object) -> None:
            # A program that never sets gradients to zero may want them.
            if id(optimizer) in self._zeroed or 0 in self._zeroed:
                original(optimizer, set_to_none=True)
                self.target = f"`{type(optimizer).__name__}`"
                self.patch = "optimizer.zero_grad(set_to_none=True)  # after `optimizer.step()`\n"

        self.on_exit(optimizers.register_optimizer_step_post_hook(free).remove)

    def nothing_found(self) -> str:
        return "no optimizer made a step after `zero_grad`"
