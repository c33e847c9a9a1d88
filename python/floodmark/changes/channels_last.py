"""Convolutions in the memory format of tensor cores: `channels-last`.

cuDNN computes convolutions in 16 bits and TF32 with the channels of a pixel side by side. Where
images are in torch's usual format, it copies inputs, outputs and gradients into workspaces and
back. Sees: outermost calls of models with `Conv2d`. The code that is printed is the code that runs.
"""

from __future__ import annotations

import weakref
from types import FrameType
from typing import Any

from floodmark.changes.calls import Calls
from floodmark.changes.change import Change, Numerics, PicklableFunction
from floodmark.changes.pasted_code import before_calls, model_name

_CODE = """\
def in_channels_last(module, args, kwargs):
    def convert(value):
        is_image = torch.is_tensor(value) and value.dim() == 4
        return value.to(memory_format=torch.channels_last) if is_image else value

    return tuple(map(convert, args)), {name: convert(value) for name, value in kwargs.items()}
"""

_USE = """
{model}.to(memory_format=torch.channels_last)
{model}.register_forward_pre_hook(in_channels_last, with_kwargs=True)
"""


class ChannelsLast(Change):
    """Keeps images and the weights of convolutions with their channels last."""

    name = "channels-last"
    calls = Calls.ALL
    numerics: Numerics = "rounding"

    def attach(self, torch: Any) -> None:
        self._torch = torch

    def prepare(self, root: Any, frame: FrameType | None) -> None:
        torch, kind = self._torch, type(root).__name__
        kinds = (torch.nn.Conv2d, torch.nn.ConvTranspose2d)
        weights = [one.weight for one in root.modules() if isinstance(one, kinds)]
        if not weights:
            self.reason = self.reason or f"`{kind}` has no `Conv2d`"
            return
        last = torch.channels_last
        is_last = all(one.is_contiguous(memory_format=last) for one in weights)
        # Kernels of one pixel are in both formats.
        if is_last and not all(one.is_contiguous() for one in weights):
            self.reason = f"`{kind}` has its channels last already"
            return
        # What is made in inference mode could not be trained later.
        with torch.inference_mode(False):
            root.to(memory_format=last)
        reference = weakref.ref(root)
        self.on_exit(lambda: _put_back(torch, reference()))
        hook = PicklableFunction(_CODE, "in_channels_last")
        self.on_exit(root.register_forward_pre_hook(hook, with_kwargs=True).remove)
        code = "" if self.target else before_calls(torch, root, frame) + _CODE
        self.patch += code + _USE.format(model=model_name(root, frame))
        number = "1 convolution" if len(weights) == 1 else f"{len(weights)} convolutions"
        described = f"{number} of `{kind}`"
        self.target += f", {described}" if self.target else described

    def nothing_found(self) -> str:
        return "no module was called"


def _put_back(torch: Any, root: Any) -> None:
    if root is not None:
        root.to(memory_format=torch.contiguous_format)
