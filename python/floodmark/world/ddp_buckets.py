"""A bucket of gradients, as `DistributedDataParallel` keeps them.

Sees: parameters. Knows nothing of when a bucket is filled and reduced.
"""

from __future__ import annotations

from typing import Any

from floodmark.world.storages import is_dense


class Bucket:
    """Gradients that are reduced together: one buffer, and a view of it for each parameter."""

    def __init__(self, torch: Any, parameters: list[Any], indices: list[int], dtype: Any) -> None:
        self.indices = indices
        self.parameters_ = parameters
        self.number, self.is_last_ = 0, False
        self.pending = len(indices)
        self.result: Any = None
        self._torch, self._dtype = torch, dtype or parameters[0].dtype
        self.buffer_: Any = None
        self.views: list[Any] = []

    def take(self) -> None:
        """Allocate the buffer's memory, if it is not allocated."""
        if self.buffer_ is not None:
            return
        total = sum(parameter.numel() for parameter in self.parameters_)
        device = self.parameters_[0].device
        self.buffer_ = self._torch.empty(total, dtype=self._dtype, device=device)
        self.views = self.views_of(self.buffer_)

    def release(self) -> None:
        """Give it back; gradients that lie in it keep it."""
        self.buffer_, self.views = None, []

    def views_of(self, buffer: Any) -> list[Any]:
        """The buffer's part for each parameter, laid out as the parameter is."""
        views, offset = [], 0
        for parameter in self.parameters_:
            views.append(buffer.as_strided(parameter.shape, _strides(parameter), offset))
            offset += parameter.numel()
        return views

    def of_type(self, dtype: Any) -> None:
        """The same in another precision."""
        self._dtype = dtype
        if self.buffer_ is not None:
            self.buffer_ = self.buffer_.to(dtype)
            self.views = self.views_of(self.buffer_)

    # What a hook of the user's is given.

    def index(self) -> int:
        """Which bucket it is."""
        return self.number

    def is_last(self) -> bool:
        """Whether no other follows in this backward pass."""
        return self.is_last_

    def buffer(self) -> Any:
        """All gradients, flat."""
        return self.buffer_

    def set_buffer(self, tensor: Any) -> None:
        """Take another buffer."""
        self.buffer_ = tensor

    def gradients(self) -> list[Any]:
        """The buffer's part for each parameter."""
        return self.views_of(self.buffer_)

    def parameters(self) -> list[Any]:
        """Whose gradients they are."""
        return list(self.parameters_)


def _strides(parameter: Any) -> tuple[int, ...]:
    """As the parameter lies, where it is dense."""
    if parameter.is_contiguous() or is_dense(parameter):
        return tuple(parameter.stride())
    strides: list[int] = []
    step = 1
    for size in reversed(parameter.shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)
