"""Saved activations in pinned memory of the host: `offload-activations`, and `=async`.

As `torch.autograd.graph.save_on_cpu(pin_memory=True)`, without parameters and small tensors:
copying those back would cost time and memory on the GPU. With `async` the copies run on a stream of
their own beside the computation. Memory on the GPU is allocated on the stream that computes, which
waits for a copy before it uses the memory again: so it needs no `record_stream`, and the same
memory is used in every step. The code that is printed is the code that runs.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

from floodmark import torch_private
from floodmark.changes.change import Change, defined_by
from floodmark.changes.pasted_code import before_training, model_name

_IN_ORDER = """\
class OffloadActivations(torch.autograd.graph.saved_tensors_hooks):
    def __init__(self, model, least_bytes=1 << 20):
        kept = {p.untyped_storage().data_ptr() for p in model.parameters()}

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
"""

_ASYNC = """\
import weakref
class Activation:
    def __init__(self, number, tensor):
        self.number, self.device, self.gpu = number, tensor.device, tensor.detach()
        self.host = torch.empty_like(tensor, device="cpu", pin_memory=True)
        self.compute = self.event = None

    def copy(self, target, source, copies):
        self.compute = torch.cuda.current_stream(self.device)
        copies.wait_stream(self.compute)
        with torch.cuda.stream(copies):
            target.copy_(source, non_blocking=True)
        self.event = copies.record_event()

    def fetch(self, copies):
        if self.gpu is None:
            self.gpu = torch.empty_like(self.host, device=self.device)
            self.copy(self.gpu, self.host, copies)

    def take(self):
        torch.cuda.current_stream(self.device).wait_event(self.event)
        tensor, self.gpu = self.gpu, None
        return tensor

    def __del__(self):
        if self.gpu is not None:  # fetched, but never used
            self.compute.wait_event(self.event)

class OffloadActivations(torch.autograd.graph.saved_tensors_hooks):
    streams = {}

    def __init__(self, model, least_bytes=1 << 20, ahead=2):
        kept = {p.untyped_storage().data_ptr() for p in model.parameters()}
        streams, order, leaving = OffloadActivations.streams, [], []

        def pack(tensor):
            is_kept = tensor.untyped_storage().data_ptr() in kept
            if not tensor.is_cuda or is_kept or tensor.nbytes < least_bytes:
                return tensor
            if tensor.device not in streams:
                streams[tensor.device] = torch.cuda.Stream(tensor.device)
            activation = Activation(len(order), tensor)
            activation.copy(activation.host, activation.gpu, streams[tensor.device])
            order.append(weakref.ref(activation))
            leaving.append(activation)
            if len(leaving) > ahead:
                leaving.pop(0).take()
            return activation

        def unpack(packed):
            if isinstance(packed, torch.Tensor):
                return packed
            if packed in leaving:
                leaving.remove(packed)
            packed.fetch(streams[packed.device])
            tensor = packed.take()
            for reference in reversed(order[max(0, packed.number - ahead) : packed.number]):
                earlier = reference()
                if earlier is not None:
                    earlier.fetch(streams[earlier.device])
            return tensor

        super().__init__(pack, unpack)
"""

_USE = """
def offloaded(forward, model):
    @functools.wraps(forward)
    def offloading(*args, **kwargs):
        with OffloadActivations(model):
            return forward(*args, **kwargs)

    return offloading

{model}.forward = offloaded({model}.forward, {model})
"""

_CODES = {"": _IN_ORDER, "async": _ASYNC}


class Offloading(Change):
    """Copies what autograd saves to the host, and back in the backward pass."""

    name = "offload-activations"
    slows = True

    def attach(self, torch: Any) -> None:  # noqa: ARG002
        self._hooks = defined_by(_CODES[self.argument], "OffloadActivations")

    def prepare(self, root: Any, frame: FrameType | None) -> None:
        if any(map(torch_private.is_sharded, root.parameters())):
            self.give_up("parameters are sharded, and would be copied with the activations")
            return
        self.target = self.target or f"`{type(root).__name__}`"
        use = _USE.format(model=model_name(root, frame))
        code = before_training(frame) + "import functools\n" + _CODES[self.argument] + use
        self.patch = self.patch or code

    def around(self, root: Any) -> AbstractContextManager[Any] | None:
        if not self.target:
            return None
        # A parameter may be replaced from step to step, so its address is asked for each time.
        hooks = self._hooks(root)
        pack = hooks.pack_hook

        def counted(tensor: Any) -> Any:
            packed = pack(tensor)
            if packed is not tensor:
                self.host_bytes += tensor.nbytes
            return packed

        hooks.pack_hook = counted
        around: AbstractContextManager[Any] = hooks
        return around
