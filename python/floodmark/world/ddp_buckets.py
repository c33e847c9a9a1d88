"""A bucket of gradients of `DistributedDataParallel`.

Sees: parameters. Knows nothing of when a bucket is filled and reduced.
"""

from __future__ import annotations

from typing import Any

from floodmark.world.storages import is_dense


class Bucket:
    """Gradients that are reduced together: one buffer with a view for each parameter."""

    def __init__(self, torch: Any, parameters: list[Any], indices: list[int], dtype: Any) -> None:
        self.indices = indices
        self.parameters_ = parameters
        self.number, self.is_last_ = 0, False
        self.pending = len(indices)
        self.result: Any = None
        self._torch, self._dtype = torch, dtype or parameters[0].dtype
        self.buffer_: Any = None
        self.views: list[Any] = []

    def allocate(self) -> None:
        """Allocate the buffer's memory, if it has none."""
        if self.buffer_ is not None:
            return
        total = sum(parameter.numel() for parameter in self.parameters_)
        device = self.parameters_[0].device
        self.buffer_ = self._torch.empty(total, dtype=self._dtype, device=device)
        self.views = self.views_of(self.buffer_)

    def release(self) -> None:
        """Drop the reference to the buffer; gradients that are views of it keep it alive."""
        self.buffer_, self.views = None, []

    def views_of(self, buffer: Any) -> list[Any]:
        """A view of `buffer` for each parameter, with the parameter's layout."""
        views, offset = [], 0
        for parameter in self.parameters_:
            views.append(buffer.as_strided(parameter.shape, _strides(parameter), offset))
            offset += parameter.numel()
        return views

    def convert(self, dtype: Any) -> None:
        """Change the element type of the buffer."""
        self._dtype = dtype
        if self.buffer_ is not None:
            self.buffer_ = self.buffer_.to(dtype)
            self.views = self.views_of(self.buffer_)

    # The interface of torch's `GradBucket`, which hooks of the user get.

    def index(self) -> int:
        """The index of the bucket."""
        return self.number

    def is_last(self) -> bool:
        """Whether it is the last bucket of this backward pass."""
        return self.is_last_

    def buffer(self) -> Any:
        """The flat tensor of all gradients."""
        return self.buffer_

    def set_buffer(self, tensor: Any) -> None:
        """Replace the buffer."""
        self.buffer_ = tensor

    def gradients(self) -> list[Any]:
        """The gradient of each parameter, as views of the buffer."""
        return self.views_of(self.buffer_)

    def parameters(self) -> list[Any]:
        """The parameters of these gradients."""
        return list(self.parameters_)


def _strides(parameter: Any) -> tuple[int, ...]:
    """The parameter's strides if it is dense, else contiguous ones."""
    if parameter.is_contiguous() or is_dense(parameter):
        return tuple(parameter.stride())
    strides: list[int] = []
    step = 1
    for size in reversed(parameter.shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)
