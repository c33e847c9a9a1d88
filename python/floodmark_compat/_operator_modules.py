"""Which module an operator belongs to, for `floodmark_compat.memory_tracker`.

In the forward pass it is the innermost module that runs on the thread. In the backward pass it is
the module whose forward made the autograd node, by the numbers that autograd gives its nodes.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from typing import Any

from floodmark import torch_private


class OperatorModules:
    """Which module runs, on which thread, forward or backward."""

    def __init__(self, torch: Any, root: Any) -> None:
        self._torch = torch
        self._threads = threading.local()
        # The numbers of autograd nodes from which on a module ran; None outside of all modules.
        self._numbers: list[int] = []
        self._names: list[str | None] = []
        named = () if root is None else root.named_parameters()
        self._owners = {id(tensor): name.rpartition(".")[0] for name, tensor in named}

    def _inside(self) -> list[str]:
        stack: list[str] | None = getattr(self._threads, "stack", None)
        if stack is None:
            stack = self._threads.stack = []
        return stack

    def enter(self, name: str) -> None:
        """A module begins."""
        self._inside().append(name)
        self._note()

    def leave(self) -> None:
        """The innermost module ends."""
        stack = self._inside()
        if stack:
            stack.pop()
        self._note()

    def _note(self) -> None:
        number = torch_private.sequence_number(self._torch)
        if number is None or (self._numbers and number < self._numbers[-1]):
            return
        stack = self._inside()
        self._numbers.append(number)
        self._names.append(stack[-1] if stack else None)

    def now(self) -> str:
        """`layer.forward`, `layer.backward`, `backward`, or nothing outside of both."""
        stack = self._inside()
        if stack:
            return f"{stack[-1]}.forward"
        node = torch_private.backward_node(self._torch)
        if node is None:
            return ""
        name = self._of_node(node)
        return "backward" if name is None else f"{name}.backward"

    def _of_node(self, node: Any) -> str | None:
        variable = getattr(node, "variable", None)
        if variable is not None:
            return self._owners.get(id(variable))
        number = torch_private.sequence_number_of(node)
        at = 0 if number is None else bisect_right(self._numbers, number)
        return self._names[at - 1] if at > 0 else None
