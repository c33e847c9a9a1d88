"""A compiled model: `compile`.

`model.compile()` before the first outermost call of a module that is trained. On a simulated GPU
Dynamo, inductor and Triton's compiler are the real ones, so what they need must be there.
"""

from __future__ import annotations

import os
import shutil
from types import FrameType
from typing import Any

from floodmark import torch_private, torch_private_fakes
from floodmark.changes.change import Change, is_installed
from floodmark.changes.pasted_code import before_training, model_name
from floodmark.recording import gpu_account

_COMPILERS = ("cc", "gcc", "clang")


class Compilation(Change):
    """Compiles the model with `torch.compile`."""

    name = "compile"
    numerics = "rounding"

    def prepare(self, root: Any, frame: FrameType | None) -> None:
        if self.target:
            return
        if any(map(torch_private_fakes.is_fake, root.parameters())):
            self.reason = (
                "not simulated: fake tensors have no kernels to compile; use `--engine phantom`"
            )
            return
        if missing := _what_is_missing(root):
            done = "simulated" if gpu_account.registered() else "compiled"
            self.reason = f"not {done}: {missing}"
            return
        root.compile()
        self.on_exit(lambda: torch_private.forget_compiled_call(root))
        self.target = f"`{type(root).__name__}`"
        self.patch = f"{before_training(frame)}{model_name(root, frame)}.compile()\n"


def _what_is_missing(root: Any) -> str:
    """Why a module cannot be compiled here; empty where it can."""
    if not any(one.is_cuda for one in root.parameters()):
        return ""
    if not is_installed("triton"):
        return "Triton is not installed"
    compilers = (os.environ.get("CC", ""), *_COMPILERS)
    if not any(one and shutil.which(one) for one in compilers):
        return "Triton needs a C compiler, and there is none"
    return ""
