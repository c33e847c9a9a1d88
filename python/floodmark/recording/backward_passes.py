"""When backward passes begin and end, for programs without an optimizer.

Sees: `torch.autograd.backward`, which `Tensor.backward` calls. Talks to: its two callbacks. A pass
inside another one (reentrant checkpoints) counts as part of it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any


class PassWatch:
    """Calls `began` before and `ended` after each backward pass until `remove`.

    An exception of `began` replaces the pass.
    """

    def __init__(self, torch: Any, began: Callable[[], None], ended: Callable[[], None]) -> None:
        self._autograd = torch.autograd
        self._original = original = torch.autograd.backward
        self._depth = 0

        @wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            if self._depth == 0:
                began()
            self._depth += 1
            try:
                result = original(*args, **kwargs)
            finally:
                self._depth -= 1
            if self._depth == 0:
                ended()
            return result

        self._backward = torch.autograd.backward = backward

    def remove(self) -> None:
        """Restore torch's function, unless another tool has replaced it since."""
        if self._autograd.backward is self._backward:
            self._autograd.backward = self._original
