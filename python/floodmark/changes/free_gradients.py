"""Gradients that are freed after each step: `free-gradients`.

They are freed right after the update, not before the next backward pass, and not set to zero where
the program calls `zero_grad(set_to_none=False)`. An optimizer treats a gradient of zeros and none
differently, so there a parameter that gets no gradient in a step gets zeros for its update. Sees:
`zero_grad` and `step`.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from functools import wraps
from typing import Any

from floodmark.changes.change import Change, defined_by
from floodmark.changes.optimizers import watch_steps
from floodmark.changes.pasted_code import for_optimizer

_FREE = """\
def free_gradients(optimizer, args, kwargs):
    optimizer.zero_grad(set_to_none=True)

"""

_USE_FREE = "optimizer.register_step_post_hook(free_gradients)\n"

_ZEROS = """\
class FreedGradients:
    def __init__(self):
        self.had_one = set()

    def put_zeros(self, optimizer, args=(), kwargs=None):
        # what `zero_grad(set_to_none=False)` leaves where there is no gradient in this step
        for group in optimizer.param_groups:
            for one in group["params"]:
                if one.grad is None and one in self.had_one:
                    one.grad = torch.zeros_like(one)

    def free(self, optimizer, args=(), kwargs=None):
        for group in optimizer.param_groups:
            self.had_one.update(one for one in group["params"] if one.grad is not None)
        optimizer.zero_grad(set_to_none=True)

"""

_USE_ZEROS = """\
freed = FreedGradients()
optimizer.register_step_pre_hook(freed.put_zeros)
optimizer.register_step_post_hook(freed.free)
"""


class FreeGradients(Change):
    """Frees gradients after each step of an optimizer, not only before the next backward pass."""

    name = "free-gradients"

    def attach(self, torch: Any) -> None:
        self._torch = torch
        self._is_zeroed: weakref.WeakSet[Any] = weakref.WeakSet()
        #: The program sets the gradients of all modules to zero.
        self._are_modules_zeroed = False
        #: It leaves zeros.
        self._has_zeros = False
        self._freed: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._new_freed = defined_by(_ZEROS, "FreedGradients")
        self._watch(torch.optim.Optimizer, self._optimizer_zeroed)
        self._watch(torch.nn.Module, self._module_zeroed)
        self._is_watching = False
        self.on_exit(watch_steps(before=self._before_step))

    def _before_step(self, optimizer: Any, *_: object) -> None:
        if not self._is_watching:
            # After the hooks of all other changes: some put gradients back after a step.
            self._is_watching = True
            self.on_exit(watch_steps(after=self._after_step))
        freed = self._freed.setdefault(optimizer, self._new_freed())
        if self._has_zeros:
            freed.put_zeros(optimizer)

    def _watch(self, owner: Any, zeroed: Any) -> None:
        original = owner.zero_grad
        signature = inspect.signature(original)

        @wraps(original)
        def zero_grad(*args: Any, **kwargs: Any) -> None:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            self._has_zeros = self._has_zeros or not bound.arguments["set_to_none"]
            zeroed(args[0])
            original(*args, **kwargs)

        self.replace(owner, "zero_grad", zero_grad)

    def _optimizer_zeroed(self, optimizer: Any) -> None:
        if optimizer not in self._is_zeroed:
            self._is_zeroed.add(optimizer)
            if self._has_zeros:
                self._free(optimizer)

    def _module_zeroed(self, module: Any) -> None:
        self._are_modules_zeroed = True
        if self._has_zeros and not self._give_up_where_kept(module.parameters()):
            for one in module.parameters():
                if one.grad is not None:
                    for freed in self._freed.values():
                        freed.had_one.add(one)
                    one.grad = None

    def _after_step(self, optimizer: Any, *_: object) -> None:
        # A program that never sets gradients to zero may want them.
        if self._are_modules_zeroed or optimizer in self._is_zeroed:
            self._free(optimizer)

    def _free(self, optimizer: Any) -> None:
        """Free the gradients of an optimizer, and say so."""
        parameters = (one for group in optimizer.param_groups for one in group["params"])
        if self.reason or (self._has_zeros and self._give_up_where_kept(parameters)):
            return
        self._freed.setdefault(optimizer, self._new_freed()).free(optimizer)
        self.target = f"`{type(optimizer).__name__}`"
        if not self.patch:
            definitions, use = (_ZEROS, _USE_ZEROS) if self._has_zeros else (_FREE, _USE_FREE)
            self.patch = for_optimizer(optimizer, definitions, use, callback="FreeGradients")

    def _give_up_where_kept(self, parameters: Any) -> bool:
        """Whether the program has the gradients in a list or in one buffer, to use them again."""
        alone = self._torch.zeros(1, device="cpu", requires_grad=True)
        alone.grad = self._torch.zeros(1, device="cpu")
        for one in parameters:
            if one.grad is None:
                continue
            if _references(one) > _references(alone):
                self.give_up("the program keeps gradients, and sets them to zero")
                return True
            if one.grad.untyped_storage().nbytes() > one.grad.nbytes:
                self.give_up("gradients are parts of buffers that the program sets to zero")
                return True
        return False

    def nothing_found(self) -> str:
        return "no optimizer made a step after `zero_grad`"


def _references(parameter: Any) -> int:
    """How many references there are to a gradient, with those of torch and of this function."""
    gradient = parameter.grad
    return sys.getrefcount(gradient)
