"""The optimizer's step inside the backward pass: `optimizer-in-backward`, or with `=offload`.

Each parameter is updated when its gradient is complete, and the gradient is freed at once, so that
gradients are never all live. That is only the same training where each step has one backward pass
and nothing reads gradients in between. So the first step waits for `optimizer.step()`: a program
that accumulates or clips gradients, or uses a `GradScaler`, is seen before anything was updated.
The first step then updates one parameter after the other, and frees its gradient.

With `=offload` the states are in pinned memory of the host between two updates, so that the GPU has
neither all gradients nor all states. It updates from the first backward pass on, as the printed
code does, so it is for programs that `optimizer-in-backward` was seen to suit.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from floodmark import torch_private
from floodmark.changes.change import Change
from floodmark.changes.offloaded_states import OFFLOADED_STATES, fetch_states, states_on_host
from floodmark.changes.optimizers import (
    has_closure,
    update_one,
    updates_one_by_one,
    watch_steps,
)
from floodmark.changes.pasted_code import for_optimizer

_UPDATE_ONE = """\
def update_one(optimizer, group, parameter):
    step = type(optimizer).step
    step = getattr(step, "__wrapped__", step)  # without the hooks
    groups, optimizer.param_groups = optimizer.param_groups, [{**group, "params": [parameter]}]
    step(optimizer)
    optimizer.param_groups = groups
"""

_STEP_IN_BACKWARD = """
def step_in_backward(optimizer, update_one):
    def updates(group):
        def update(parameter):
            update_one(optimizer, group, parameter)
            parameter.grad = None
        return update

    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(updates(group))
"""

_USE = """\
# `optimizer.step()` then finds no gradients, and does nothing
step_in_backward(optimizer, update_one)
"""

_USE_ON_HOST = """\
# `optimizer.step()` then finds no gradients, and does nothing
states = OffloadedStates()
step_in_backward(optimizer, states.update_one)
optimizer.register_step_post_hook(states.wait)
"""

#: What is defined, and how it is used.
_PATCHES = {
    "": (_UPDATE_ONE + _STEP_IN_BACKWARD + "\n", _USE),
    "offload": (OFFLOADED_STATES + _STEP_IN_BACKWARD + "\n", _USE_ON_HOST),
}


class OptimizerInBackward(Change):
    """Updates each parameter as soon as its gradient is complete."""

    name = "optimizer-in-backward"
    slows = True

    def __init__(self, argument: str = "") -> None:
        super().__init__(argument)
        self._states: Any = None

    def attach(self, torch: Any) -> None:
        self._states = states_on_host() if self.argument else None
        #: Parameters whose gradient was complete since the last step.
        self._complete: set[int] = set()
        #: Optimizers that have made their first step.
        self._begun: set[int] = set()
        self._is_zeroed = False
        base = torch.optim.Optimizer
        add_group = base.add_param_group

        @wraps(add_group)
        def add_param_group(optimizer: Any, group: Any) -> None:
            add_group(optimizer, group)
            if not self.reason and updates_one_by_one(optimizer):
                self._listen(optimizer, optimizer.param_groups[-1])

        self.replace(base, "add_param_group", add_param_group)
        utils = torch.nn.utils
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            self._refuse_after(utils, name, "the program clips gradients")
        self._refuse_after(torch.amp.GradScaler, "unscale_", "the program uses a `GradScaler`")
        self._refuse_after(torch.amp.GradScaler, "step", "the program uses a `GradScaler`")
        for owner in (base, torch.nn.Module):
            self._note_zeroing(owner)
        self.on_exit(watch_steps(self._before_step, self._after_step))

    def _note_zeroing(self, owner: Any) -> None:
        original = owner.zero_grad

        @wraps(original)
        def zero_grad(*args: Any, **kwargs: Any) -> None:
            self._is_zeroed = True
            original(*args, **kwargs)

        self.replace(owner, "zero_grad", zero_grad)

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
        if any(map(torch_private.is_sharded, group["params"])):
            self.give_up("parameters are sharded: their gradients are not complete one by one")
            return
        for parameter in group["params"]:
            if parameter.requires_grad and parameter.is_leaf:
                handle = parameter.register_post_accumulate_grad_hook(
                    lambda one: self._gradient_completed(optimizer, group, one)
                )
                self.on_exit(handle.remove)
        if self._states is not None:
            self.on_exit(lambda: fetch_states(self._states, optimizer))
        self.target = f"`{type(optimizer).__name__}`"
        definitions, use = _PATCHES[self.argument]
        self.patch = for_optimizer(optimizer, definitions, use, callback="StepInBackward")

    def _gradient_completed(self, optimizer: Any, group: dict[str, Any], parameter: Any) -> None:
        if self.reason:
            return
        if id(parameter) in self._complete:
            self.give_up("the program accumulates gradients over several backward passes")
            return
        self._complete.add(id(parameter))
        is_begun = id(optimizer) in self._begun
        if not is_begun and self._states is None:
            return
        if is_begun and not self._is_zeroed:
            self.give_up("the program never sets gradients to zero")
            return
        self._update(optimizer, group, parameter)

    def _update(self, optimizer: Any, group: dict[str, Any], parameter: Any) -> None:
        if self._states is None:
            update_one(optimizer, group, parameter)
        else:
            self._states.update_one(optimizer, group, parameter)
            copies = self._states.on_host.get(parameter, {})
            self.host_bytes += sum(copy.nbytes for copy in copies.values())
        parameter.grad = None

    def give_up(self, reason: str) -> None:
        if self._states is not None and self._complete and not self.reason:
            reason += "; a part of this step was made before that was seen: do not use its results"
        super().give_up(reason)

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """The first step: nothing speaks against the change, so update here, one by one."""
        is_first = id(optimizer) not in self._begun
        if self.reason or not is_first or not updates_one_by_one(optimizer):
            return
        if has_closure(args, kwargs):
            self.give_up("the step of the optimizer computes the loss")
            return
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(optimizer, group, parameter)

    def _after_step(self, optimizer: Any, *_: object) -> None:
        self._begun.add(id(optimizer))
        self._complete.clear()
        if self._states is not None:
            self._states.wait()

    def nothing_found(self) -> str:
        return "the program makes no optimizer whose parameters are updated one by one"
