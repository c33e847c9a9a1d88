"""Python objects between ranks that do not run, and the barrier that watches them.

torch sends objects as tensors of bytes, which have no values in a block of fake tensors. So what
other ranks would send is what this rank has, where it has something. Sees:
`torch.distributed.distributed_c10d`. Knows nothing of groups' insides.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from floodmark import torch_private

Arguments = dict[str, Any]


class Objects:
    """What stands in for the functions that send objects."""

    def __init__(self, c10d: Any, note: Callable[[str], None]) -> None:
        self._c10d = c10d
        self._note = note

    def functions(self) -> dict[str, Callable[..., Any]]:
        """The functions by the names of those that they stand in for."""
        found = {}
        for name in (
            "all_gather_object",
            "gather_object",
            "broadcast_object_list",
            "scatter_object_list",
            "send_object_list",
            "recv_object_list",
            "monitored_barrier",
        ):
            original = getattr(self._c10d, name, None)
            if original is not None:
                found[name] = self._standing_in(original, getattr(self, "_" + name))
        return found

    def _standing_in(self, original: Any, answer: Callable[[Arguments], Any]) -> Any:
        signature = inspect.signature(original)

        @wraps(original)
        def stand_in(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            if torch_private.is_outside(self._c10d, bound.arguments.get("group")):
                return None
            return answer(bound.arguments)

        return stand_in

    def _is_it(self, given: Arguments, side: str) -> bool:
        """Whether this rank is the one that `src` or `dst` (or `group_src` …) names."""
        in_group = given.get(f"group_{side}")
        if in_group is not None:
            return bool(in_group == self._c10d.get_rank(given.get("group")))
        return bool((given.get(side) or 0) == self._c10d.get_rank())

    def _all_gather_object(self, given: Arguments) -> None:
        shares = given["object_list"]
        size = self._c10d.get_world_size(given.get("group"))
        shares[:size] = [given["obj"]] * min(size, len(shares))
        if size > 1:
            self._note("Objects that other ranks would have sent were taken to be this rank's")

    def _gather_object(self, given: Arguments) -> None:
        shares = given.get("object_gather_list")
        if shares is not None and self._is_it(given, "dst"):
            self._all_gather_object({**given, "object_list": shares})

    def _broadcast_object_list(self, given: Arguments) -> None:
        if not self._is_it(given, "src"):
            self._note("Objects that another rank would have broadcast were left as they were")

    def _scatter_object_list(self, given: Arguments) -> None:
        shares = given.get("scatter_object_input_list")
        if shares and self._is_it(given, "src"):
            own = self._c10d.get_rank(given.get("group"))
            given["scatter_object_output_list"][0] = shares[own]
        elif shares and shares[0] is not None:
            given["scatter_object_output_list"][0] = shares[0]
            self._note("An object that another rank would have scattered was taken from ours")
        else:
            self._note("An object that another rank would have scattered was left as it was")

    def _send_object_list(self, _given: Arguments) -> None:
        """No other rank runs to receive them."""

    def _recv_object_list(self, given: Arguments) -> int:
        sender = given.get("src", given.get("group_src"))
        if all(value is None for value in given["object_list"]):
            raise RuntimeError(
                f"rank {self._c10d.get_rank()} waits for objects of rank {sender}, which does not "
                "run\n\n"
                "hint: in a pipeline, give `PipelineStage` its `input_args` and `output_args`"
            )
        self._note("Objects that another rank would have sent were left as they were")
        return int(sender or 0)

    def _monitored_barrier(self, _given: Arguments) -> None:
        """Every other rank has been there already."""
