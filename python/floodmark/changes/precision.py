"""Precision: `autocast=bf16` around the forward pass, `bf16-parameters`.

At the end of `bf16-parameters`, parameters, buffers, gradients and optimizer states have the types
that they had. They keep the values of bf16: what rounding took is gone.
"""

from __future__ import annotations

import weakref
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

from floodmark.changes.calls import Calls
from floodmark.changes.change import Change, PicklableFunction
from floodmark.changes.optimizer_parameters import optimizers_of
from floodmark.changes.pasted_code import before_calls, before_training, model_name

_TYPES = {"bf16": "bfloat16", "fp16": "float16"}

_IN_BF16 = """\
from torch.utils._pytree import tree_map

def in_bf16(module, args, kwargs):
    def cast(value):
        is_float = torch.is_tensor(value) and value.dtype == torch.float32
        return value.to(torch.bfloat16) if is_float else value

    return tree_map(cast, (args, kwargs))
"""

_USE_BF16 = """
{model}.to(torch.bfloat16)
{model}.register_forward_pre_hook(in_bf16, with_kwargs=True)
"""


class Autocast(Change):
    """Runs matrix products and convolutions of the forward pass in 16 bits."""

    name = "autocast"
    numerics = "changed"

    def attach(self, torch: Any) -> None:
        self._torch = torch

    def prepare(self, root: Any, frame: FrameType | None) -> None:
        torch = self._torch
        if torch.is_autocast_enabled():
            self.reason = "the program uses autocast already"
            return
        if not any(one.dtype == torch.float32 for one in root.parameters()):
            self.reason = "no parameter is in fp32"
            return
        self.target = f"`{type(root).__name__}`"
        forward = f"{model_name(root, frame)}.forward"
        self.patch = (
            f"{before_training(frame)}{forward} = "
            f'torch.autocast("cuda", dtype=torch.{_TYPES[self.argument]})({forward})\n'
        )

    def around(self, root: Any) -> AbstractContextManager[Any] | None:  # noqa: ARG002
        torch = self._torch
        if not self.target or torch.is_autocast_enabled():
            return None
        context: AbstractContextManager[Any] = torch.autocast(
            "cuda", dtype=getattr(torch, _TYPES[self.argument])
        )
        return context


class Bf16Parameters(Change):
    """Keeps parameters, and so gradients and optimizer states, in bf16."""

    name = "bf16-parameters"
    calls = Calls.ALL
    numerics = "changed"

    def attach(self, torch: Any) -> None:
        self._torch = torch

    def prepare(self, root: Any, frame: FrameType | None) -> None:
        torch = self._torch
        if not any(one.dtype == torch.float32 for one in root.parameters()):
            self.reason = "no parameter is in fp32"
            return
        before = {name: one.dtype for name, one in _tensors(root)}
        # What is made in inference mode could not be trained later.
        with torch.inference_mode(False):
            root.to(torch.bfloat16)
            # A program may have loaded them before.
            changed = dict.fromkeys(root.parameters(), torch.bfloat16)
            _convert_states(torch, changed, torch.float32)
        reference = weakref.ref(root)
        self.on_exit(lambda: _put_back(torch, reference(), before))
        hook = PicklableFunction(_IN_BF16, "in_bf16")
        self.on_exit(root.register_forward_pre_hook(hook, with_kwargs=True).remove)
        kind = f"`{type(root).__name__}`"
        code = "" if self.target else before_calls(torch, root, frame) + _IN_BF16
        self.patch += code + _USE_BF16.format(model=model_name(root, frame))
        self.target += f", {kind}" if self.target else kind

    def nothing_found(self) -> str:
        return "no module was called"


def _tensors(root: Any) -> list[tuple[str, Any]]:
    return [*root.named_parameters(), *root.named_buffers()]


def _put_back(torch: Any, root: Any, before: dict[str, Any]) -> None:
    """Give all that became bf16 the type that it had."""
    if root is None:
        return
    types: dict[Any, Any] = {}
    for name, one in _tensors(root):
        dtype = before.get(name, one.dtype)
        if one.dtype != dtype:
            types[one] = dtype
            one.data = one.data.to(dtype)
            if one.grad is not None:
                one.grad.data = one.grad.data.to(dtype)
    _convert_states(torch, types, torch.bfloat16)


def _convert_states(torch: Any, types: dict[Any, Any], of: Any) -> None:
    """Give the states of parameters, as far as they are of one type, another one."""
    for optimizer in optimizers_of(torch, list(types)):
        for parameter, state in optimizer.state.items():
            for name, value in state.items() if parameter in types else ():
                is_of_type = torch.is_tensor(value) and value.dtype == of
                if is_of_type and value.shape == parameter.shape:
                    state[name] = value.to(types[parameter])
