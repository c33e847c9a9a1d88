"""Saved activations in pinned memory of the host: `offload-activations`.

As `torch.autograd.graph.save_on_cpu(pin_memory=True)`, without parameters and small tensors:
copying those back would cost time and memory on the GPU.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

from floodmark.changes.change import Change, name_of

#: A smaller tensor stays on the GPU.
LEAST_BYTES = 1 << 20

_PATCH = """\
import torch

class OffloadActivations(torch.autograd.graph.saved_tensors_hooks):
    def __init__(self, model, least_bytes=1 << 20):
        kept = {{p.untyped_storage().data_ptr() for p in model.parameters()}}

        def pack(tensor):
            is_kept = tensor.untyped_storage().data_ptr() in kept
            if not tensor.is_cuda or is_kept or tensor.nbytes < least_bytes:
                return tensor
            copy = torch.empty_like(tensor, device="cpu", pin_memory=True)
            return copy.copy_(tensor, non_blocking=True), tensor.device

        def unpack(packed):
            if isinstance(packed, torch.Tensor):
                return packed
            return packed[0].to(packed[1], non_blocking=True)

        super().__init__(pack, unpack)

with OffloadActivations({model}):  # around the forward pass
    ...
"""


class Offloading(Change):
    """Copies what autograd saves to the host, and back in the backward pass."""

    name = "offload-activations"
    slows = True

    def attach(self, torch: Any) -> None:
        self._torch = torch

    def prepare(self, root: Any, frame: FrameType | None) -> None:
        self.target = self.target or f"`{type(root).__name__}`"
        self.patch = self.patch or _PATCH.format(model=name_of(root, frame, "model"))

    def around(self, root: Any) -> AbstractContextManager[Any] | None:
        torch = self._torch
        # A parameter may be replaced from step to step, so its address is asked for each time.
        kept = {one.untyped_storage().data_ptr() for one in root.parameters()}

        def pack(tensor: Any) -> Any:
            is_kept = tensor.untyped_storage().data_ptr() in kept
            if not tensor.is_cuda or is_kept or tensor.nbytes < LEAST_BYTES:
                return tensor
            copy = torch.empty_like(tensor, device="cpu", pin_memory=True)
            self.host_bytes += tensor.nbytes
            return copy.copy_(tensor, non_blocking=True), tensor.device

        def unpack(packed: Any) -> Any:
            if isinstance(packed, torch.Tensor):
                return packed
            return packed[0].to(packed[1], non_blocking=True)

        hooks: AbstractContextManager[Any] = torch.autograd.graph.saved_tensors_hooks(pack, unpack)
        return hooks
