"""Changes of optimizers: `foreach=off`, `fused`; updates of one parameter.

Sees: the constructors of `torch.optim`, and `step`. Optimizers of other libraries are left alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from floodmark.changes.change import Change
from floodmark.changes.pasted_code import calling_line, for_optimizer

#: Classes whose update of a parameter depends on that parameter alone.
_ONE_BY_ONE = (
    "SGD",
    "Adam",
    "AdamW",
    "NAdam",
    "RAdam",
    "Adamax",
    "Adadelta",
    "Adagrad",
    "RMSprop",
)


def updates_one_by_one(optimizer: Any) -> bool:
    """Whether an optimizer may update its parameters one after the other."""
    kind = type(optimizer)
    return kind.__name__ in _ONE_BY_ONE and kind.__module__.startswith("torch.optim")


def update_one(optimizer: Any, group: dict[str, Any], parameter: Any) -> None:
    """Update one parameter, without the hooks of a step: it is a part of one."""
    # It shares the states, so that `optimizer.state_dict()` still has all of them.
    single = object.__new__(type(optimizer))
    single.__dict__.update(optimizer.__dict__)
    single.param_groups = [{**group, "params": [parameter]}]
    step = type(optimizer).step
    getattr(step, "__wrapped__", step)(single)


def watch_steps(
    before: Callable[[Any, Any, Any], None] | None = None,
    after: Callable[[Any, Any, Any], None] | None = None,
) -> Callable[[], None]:
    """Call these around every step of an optimizer, until what is returned is called."""
    from torch.optim import optimizer as optimizers

    is_over = False
    depth = 0

    def hook(call: Callable[[Any, Any, Any], None]) -> Callable[[Any, Any, Any], None]:
        def called(optimizer: Any, args: Any, kwargs: Any) -> None:
            nonlocal depth
            if is_over:
                return
            depth += 1
            try:
                call(optimizer, args, kwargs)
            finally:
                depth -= 1

        return called

    handles = []
    if before is not None:
        handles.append(optimizers.register_optimizer_step_pre_hook(hook(before)))
    if after is not None:
        handles.append(optimizers.register_optimizer_step_post_hook(hook(after)))

    def end() -> None:
        nonlocal is_over
        is_over = True
        # Inside of a hook torch iterates over them: then they stay, and do nothing.
        if not depth:
            for handle in handles:
                handle.remove()

    return end


def when_optimizer_is_made(change: Change, torch: Any, refuse: Callable[[str], None]) -> None:
    """Refuse a change that is for programs which train nothing, once there is an optimizer."""
    base = torch.optim.Optimizer
    init = base.__init__

    @wraps(init)
    def made(optimizer: Any, *args: Any, **kwargs: Any) -> None:
        init(optimizer, *args, **kwargs)
        refuse(f"the program makes an optimizer (`{type(optimizer).__name__}`)")

    change.replace(base, "__init__", made)


def has_closure(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a step computes the loss itself; `args` has the optimizer too."""
    return any(one is not None for one in (*args[1:], *kwargs.values()))


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
                self._change(optimizer, kind, kwargs)
            init(optimizer, *args, **kwargs)

        self.replace(kind, "__init__", changed)

    def _change(self, optimizer: Any, kind: Any, kwargs: dict[str, Any]) -> None:
        """Change the arguments of a constructor."""
        raise NotImplementedError

    def _applied(self, optimizer: Any, code: str, **options: bool) -> None:
        """Say what was done; `code` is the argument where the optimizer is made."""
        kind = type(optimizer).__name__
        self.target = f"`{kind}`"
        line = calling_line()
        where = f" in {line}" if line else ""
        set_all = "".join(f'    group["{name}"] = {value}\n' for name, value in options.items())
        use = f"# or `{kind}(…, {code})`{where}\nfor group in optimizer.param_groups:\n{set_all}"
        self.patch = for_optimizer(optimizer, "", use, callback=f"{self.name.title()}Optimizer")

    def nothing_found(self) -> str:
        return "the program makes no optimizer of `torch.optim` that has the option"


class Foreach(_Constructors):
    """Updates one parameter after the other: no temporary copies of all of them at once."""

    name = "foreach"
    slows = True
    _keyword = "foreach"

    def _change(self, optimizer: Any, kind: Any, kwargs: dict[str, Any]) -> None:
        if kwargs.get("fused"):
            self.reason = f"`{kind.__name__}` is fused already, which needs no temporary copies"
        elif kwargs.get("foreach") is False:
            self.reason = f"`{kind.__name__}` has `foreach=False` already"
        else:
            kwargs["foreach"] = False
            self._applied(optimizer, "foreach=False", foreach=False)


class Fused(_Constructors):
    """Updates all parameters in one kernel: no temporary copies, and fewer launches."""

    name = "fused"
    numerics = "rounding"
    _keyword = "fused"

    def _change(self, optimizer: Any, kind: Any, kwargs: dict[str, Any]) -> None:
        if kwargs.get("fused"):
            self.reason = f"`{kind.__name__}` is fused already"
            return
        kwargs["fused"] = True
        kwargs["foreach"] = False
        self._applied(optimizer, "fused=True", fused=True, foreach=False)
