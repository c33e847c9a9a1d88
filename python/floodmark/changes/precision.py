"""Precision: `autocast=bf16` around the forward pass, `bf16-parameters`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import wraps
from types import FrameType
from typing import Any

from floodmark import torch_private
from floodmark.changes.change import Change
from floodmark.changes.pasted_code import before_training, model_name

_TYPES = {"bf16": "bfloat16", "fp16": "float16"}

_BF16_PATCH = """\
def in_bf16(module, args, kwargs):
    def cast(value):
        is_float = torch.is_tensor(value) and value.dtype == torch.float32
        return value.to(torch.bfloat16) if is_float else value

    return tuple(map(cast, args)), {{name: cast(value) for name, value in kwargs.items()}}

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
    numerics = "changed"

    def attach(self, torch: Any) -> None:
        self._torch = torch

    def prepare(self, root: Any, frame: FrameType | None) -> None:
        torch = self._torch
        if not any(one.dtype == torch.float32 for one in root.parameters()):
            self.reason = "no parameter is in fp32"
            return
        root.to(torch.bfloat16)
        self._cast_inputs(root)
        self.target = f"`{type(root).__name__}`"
        self.patch = before_training(frame) + _BF16_PATCH.format(model=model_name(root, frame))

    def _cast_inputs(self, root: Any) -> None:
        torch = self._torch
        tree_map = torch_private.trees().tree_map
        original = root.forward

        def cast(value: Any) -> Any:
            is_float = isinstance(value, torch.Tensor) and value.dtype == torch.float32
            return value.to(torch.bfloat16) if is_float else value

        @wraps(original)
        def forward(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = tree_map(cast, (args, kwargs))
            return original(*args, **kwargs)

        self.replace(root, "forward", forward)
