"""The optimizer's step inside the backward pass: `optimizer-in-backward`.

Each parameter is updated when its gradient is complete, and the gradient is freed at once, so that
gradients are never all live. That is only the same training where each step has one backward pass
and nothing reads gradients in between: accumulation, clipping and a `GradScaler` are seen, and end
the change.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from floodmark.changes.change import Change

#: Classes whose update of a parameter depends on that parameter alone.
_CLASSES = ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adadelta", "Adagrad", "RMSprop")

_PATCH = """\
optimizers = {{p: torch.optim.{kind}([p], …) for p in model.parameters() if p.requires_grad}}

def step_in_backward(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad(set_to_none=True)

for parameter in optimizers:
    parameter.register_post_accumulate_grad_hook(step_in_backward)
# then leave out `optimizer.step()` and `optimizer.zero_grad()`
"""


class OptimizerInBackward(Change):
    """Updates each parameter as soon as its gradient is complete."""

    name = "optimizer-in-backward"
    slows = True

    def attach(self, torch: Any) -> None:
        self._torch = torch
        #: Parameters that were updated since the last step of their optimizer.
        self._updated: set[int] = set()
        self._singles: dict[int, Any] = {}
        base = torch.optim.Optimizer
        add_group = base.add_param_group

        @wraps(add_group)
        def add_param_group(optimizer: Any, group: Any) -> None:
            add_group(optimizer, group)
            if not self.reason and self._suits(optimizer):
                self._listen(optimizer, optimizer.param_groups[-1])

        self.replace(base, "add_param_group", add_param_group)
        utils = torch.nn.utils
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            self._refuse_after(utils, name, "the program clips gradients")
        self._refuse_after(torch.amp.GradScaler, "unscale_", "the program uses a `GradScaler`")
        self._refuse_after(torch.amp.GradScaler, "step", "the program uses a `GradScaler`")
        from torch.optim import optimizer as optimizers

        def stepped(*_: object) -> None:
            self._updated.clear()

        self.on_exit(optimizers.register_optimizer_step_post_hook(stepped).remove)

    def _suits(self, optimizer: Any) -> bool:
        kind = type(optimizer)
        return kind.__name__ in _CLASSES and kind.__module__.startswith("torch.optim")

    def _refuse_after(self, owner: Any, name: str, reason: str) -> None:
        original = getattr(owner, name)

        @wraps(original)
        def refusing(*args: Any, **kwargs: Any) -> Any:
            scaler = args[0] if args else None
            if getattr(scaler, "is_enabled", lambda: True)():
                self.give_up(reason)
            return original(*args, **kwargs)

        self.replace(owner, name, refusing)

    def _listen(self, optimizer: Any, group: dict[str, Any]) -> None:
        for parameter in group["params"]:
            if parameter.requires_grad and parameter.is_leaf:
                handle = parameter.register_post_accumulate_grad_hook(
                    lambda one: self._update(optimizer, group, one)
                )
                self.on_exit(handle.remove)
        self.target = f"`{type(optimizer).__name__}`"
        self.patch = _PATCH.format(kind=type(optimizer).__name__)

    def _update(self, optimizer: Any, group: dict[str, Any], parameter: Any) -> None:
        if self.reason:
            return
        if id(parameter) in self._updated:
            self.give_up("the program accumulates gradients over several backward passes")
            return
        self._updated.add(id(parameter))
        single = self._singles.get(id(parameter))
        if single is None:
            # It shares the states, so that `optimizer.state_dict()` still has all of them.
            single = object.__new__(type(optimizer))
            single.__dict__.update(optimizer.__dict__)
            self._singles[id(parameter)] = single
        single.param_groups = [{**group, "params": [parameter]}]
        step = type(optimizer).step
        # Without the hooks of `step`: one call for each parameter is not one step each.
        getattr(step, "__wrapped__", step)(single)
        parameter.grad = None

    def nothing_found(self) -> str:
        return "the program makes no optimizer whose parameters are updated one by one"
