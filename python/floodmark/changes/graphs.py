"""Inference without a graph: `no-grad`.

A program that only reads the results of its model, but calls it with gradients on, keeps all
activations for a backward pass that never comes. Here its outermost calls run under
`torch.no_grad()`. `inference_mode` would save no more, and its tensors could not be used in a graph
later. A program that trains, or may train, is left alone: one with an optimizer, a model in
training mode, inputs that require gradients, or a function that calls `backward`.

Sees: outermost calls, the constructor of optimizers, backward passes.
"""

from __future__ import annotations

import weakref
from contextlib import AbstractContextManager
from functools import partial, wraps
from pathlib import Path
from types import FrameType
from typing import Any

from floodmark import torch_private
from floodmark.changes.calls import Calls, calls_of, is_in_training_mode
from floodmark.changes.change import Change
from floodmark.changes.optimizers import when_optimizer_is_made
from floodmark.changes.pasted_code import before_calls, callers, model_name

_PATCH = "{model}.forward = torch.no_grad()({model}.forward)\n"

#: What a function names that uses gradients.
_OF_GRADIENTS = frozenset({"backward", "grad"})


class NoGrad(Change):
    """Calls models that are not trained under `torch.no_grad()`."""

    name = "no-grad"
    calls = Calls.ALL

    def __init__(self, argument: str = "") -> None:
        super().__init__(argument)
        #: Why the program trains; empty as long as nothing says that it does.
        self._training = ""
        self._models: Any = weakref.WeakSet()

    def attach(self, torch: Any) -> None:
        self._torch = torch
        when_optimizer_is_made(self, torch, self._trains)
        for name in ("backward", "grad"):
            self._watch_gradients(torch.autograd, name)

    def _watch_gradients(self, autograd: Any, name: str) -> None:
        original = getattr(autograd, name)

        @wraps(original)
        def derived(*args: Any, **kwargs: Any) -> Any:
            reason = "the program computes gradients"
            if self.target:
                reason += ", and its calls until now have none: run it without this change"
            self._trains(reason)
            return original(*args, **kwargs)

        self.replace(autograd, name, derived)

    def _trains(self, reason: str) -> None:
        """Give it up for good, where there is a reason."""
        if self._training or not reason:
            return
        self._training = reason
        if self.target:
            self.give_up(reason)
        self.reason = reason

    def prepare(self, root: Any, frame: FrameType | None) -> None:
        torch, kind = self._torch, type(root).__name__
        self._trains(self._trained_by(root))
        if self._training:
            return
        if not torch.is_grad_enabled():
            self.reason = f"`{kind}` is called without gradients already"
            return
        if not any(one.requires_grad for one in root.parameters()):
            self.reason = f"no parameter of `{kind}` requires gradients"
            return
        use = _PATCH.format(model=model_name(root, frame))
        self.patch += use if self.target else before_calls(torch, root, frame) + use
        self.target += f", `{kind}`" if self.target else f"`{kind}`"
        self.reason = ""
        self._models.add(root)
        called = partial(self.guarded, self._called)
        self.on_exit(root.register_forward_pre_hook(called, with_kwargs=True).remove)

    def _trained_by(self, root: Any) -> str:
        """Why the program of this call may train; empty where nothing says so."""
        kind = type(root).__name__
        if calls_of(self._torch, root) is Calls.TRAINING:
            return is_in_training_mode(root)
        if torch_private.transforms(self._torch)[0]() is not None:
            return "the program transforms its model with `torch.func`"
        for caller in callers():
            if _OF_GRADIENTS.intersection(caller.f_code.co_names):
                name, file = caller.f_code.co_name, Path(caller.f_code.co_filename).name
                where = file if name == "<module>" else f"`{name}` of {file}"
                return f"`{kind}` is called in {where}, which uses gradients"
        return ""

    def _called(self, _model: Any, args: Any, kwargs: Any) -> None:
        """The inputs are known: those that require gradients are what the program derives by."""
        torch = self._torch
        leaves = torch_private.trees().tree_leaves((args, kwargs))
        if self.target and any(torch.is_tensor(one) and one.requires_grad for one in leaves):
            self._trains("the program wants the gradients of the inputs")
            # For the rest of this call; leaving `no_grad` sets what was before.
            torch.set_grad_enabled(True)

    def around(self, root: Any) -> AbstractContextManager[Any] | None:
        if not self.target or root not in self._models:
            return None
        self._trains(self._trained_by(root))
        context: AbstractContextManager[Any] = self._torch.no_grad()
        return None if self._training else context

    def nothing_found(self) -> str:
        return "no module was called"
