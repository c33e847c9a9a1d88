"""Python objects between ranks that do not run, and the barrier that watches them.

torch sends objects as tensors of bytes. What other ranks would send is what this rank has, where it
has something. Sees: `torch.distributed.distributed_c10d`. Knows nothing of groups' insides.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from floodmark.estimate.world.process_groups import Members
from floodmark.estimate.world.replaced_names import Arguments, wrapped

#: Torch's own, which gives this rank's object for each of the others where tensors have bytes.
_GATHERED = "all_gather_object"
_FUNCTIONS = (
    "gather_object",
    "broadcast_object_list",
    "scatter_object_list",
    "send_object_list",
    "recv_object_list",
    "monitored_barrier",
)


class Objects(Members):
    """What stands in for the functions that send objects.

    `has_bytes`: whether tensors have values, so that torch can send this rank's objects itself.
    """

    def __init__(self, c10d: Any, note: Callable[[str], None], *, has_bytes: bool) -> None:
        super().__init__(c10d)
        self._note = note
        self._has_bytes = has_bytes

    def functions(self) -> dict[str, Callable[..., Any]]:
        """The functions by the names of those that they stand in for."""
        names = _FUNCTIONS if self._has_bytes else (_GATHERED, *_FUNCTIONS)
        originals = {name: getattr(self._c10d, name, None) for name in names}
        return {
            name: wrapped(original, partial(self._call, getattr(self, "_" + name)))
            for name, original in originals.items()
            if original is not None
        }

    def _call(
        self,
        answer: Callable[[Callable[[], Any], Arguments], Any],
        original: Callable[[], Any],
        given: Arguments,
    ) -> Any:
        return original() if self.is_outside(given) else answer(original, given)

    def _send(self, original: Callable[[], Any]) -> Any:
        """This rank's objects, for those who wait for them."""
        return original() if self._has_bytes else None

    def _all_gather_object(self, _original: Callable[[], Any], given: Arguments) -> None:
        shares, size = given["object_list"], self.size(given)
        shares[:size] = [given["obj"]] * min(size, len(shares))
        if size > 1:
            self._note("objects that other ranks would have sent were taken to be this rank's")

    def _gather_object(self, original: Callable[[], Any], given: Arguments) -> Any:
        shares = given.get("object_gather_list")
        if shares is None or not self.is_it(given, "dst"):
            return self._send(original)
        return self._c10d.all_gather_object(shares, given["obj"], group=given.get("group"))

    def _broadcast_object_list(self, original: Callable[[], Any], given: Arguments) -> Any:
        if self.is_it(given, "src"):
            return self._send(original)
        self._note("objects that another rank would have broadcast were left as they were")
        return None

    def _scatter_object_list(self, _original: Callable[[], Any], given: Arguments) -> None:
        shares = given.get("scatter_object_input_list")
        if shares and self.is_it(given, "src"):
            given["scatter_object_output_list"][0] = shares[self.rank(given)]
        elif shares and shares[0] is not None:
            given["scatter_object_output_list"][0] = shares[0]
            self._note("an object that another rank would have scattered was taken from ours")
        else:
            self._note("an object that another rank would have scattered was left as it was")

    def _send_object_list(self, original: Callable[[], Any], _given: Arguments) -> Any:
        return self._send(original)

    def _recv_object_list(self, _original: Callable[[], Any], given: Arguments) -> int:
        sender = given.get("src", given.get("group_src"))
        if all(value is None for value in given["object_list"]):
            raise RuntimeError(
                f"rank {self._c10d.get_rank()} waits for objects of rank {sender}, which does not "
                "run\n\n"
                "hint: in a pipeline, give `PipelineStage` its `input_args` and `output_args`"
            )
        self._note("objects that another rank would have sent were left as they were")
        return int(sender or 0)

    def _monitored_barrier(self, _original: Callable[[], Any], _given: Arguments) -> None:
        """Every other rank has been there already."""
