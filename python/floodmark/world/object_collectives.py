"""Python objects between the ranks of a world in one process, and the barrier that watches them.

torch sends objects as tensors of bytes. What other ranks would send is what this rank has, where it
has something; otherwise the rank that sends them is started, where there is a hub. Sees:
`torch.distributed.distributed_c10d`. Talks to: the hub. Knows nothing of groups' insides.
"""

from __future__ import annotations

import contextlib
import pickle
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from floodmark import torch_private
from floodmark.world import rank_hub
from floodmark.world.process_groups import Members
from floodmark.world.replaced_names import Arguments, wrapped

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
        self._seat = rank_hub.current()
        self._counts: Counter[tuple[Any, ...]] = Counter()

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

    def _post(self, sent: Any, *channel: Any) -> None:
        """The same, for those that the hub has started."""
        if self._seat is not None:
            # What cannot be pickled is not sent by torch either, which says so.
            with contextlib.suppress(Exception):
                self._seat.post(self._key(self._seat.rank, *channel), pickle.dumps(sent))

    def _want(self, sender: int, *channel: Any) -> tuple[Any, str]:
        """What another rank posts, which is started if it does not run; nothing, and why not."""
        if self._seat is None:
            return None, "it does not run"
        key = self._key(sender, *channel)
        self._note(f"rank {sender} runs too, because rank {self._seat.rank} waits for its objects")
        data, why = self._seat.want(key)
        return (None if data is None else pickle.loads(data)), why

    def _key(self, *channel: Any) -> tuple[Any, ...]:
        """The name of the next message of a channel: both ends count alike."""
        self._counts[channel] += 1
        return (*channel, self._counts[channel])

    def _ranks(self, given: Arguments) -> tuple[int, ...]:
        group = given.get("group") or torch_private.default_group(self._c10d)
        return tuple(self._c10d.get_process_group_ranks(group))

    def _global(self, given: Arguments, side: str) -> int:
        """The number in the world of the rank that `src` or `dst` (or `group_src` …) names."""
        return self._ranks(given)[self.peer(given, side)]

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
        objects, ranks = given["object_list"], self._ranks(given)
        if self.is_it(given, "src"):
            self._post(objects, "broadcast", ranks)
            return self._send(original)
        if self._seat is not None and all(value is None for value in objects):
            found, _ = self._want(self._global(given, "src"), "broadcast", ranks)
            if found is not None:
                objects[:] = found
                return None
        self._note("objects that another rank would have broadcast were left as they were")
        return None

    def _scatter_object_list(self, _original: Callable[[], Any], given: Arguments) -> None:
        shares, ranks = given.get("scatter_object_input_list"), self._ranks(given)
        if shares and self.is_it(given, "src"):
            self._post(shares, "scatter", ranks)
            given["scatter_object_output_list"][0] = shares[self.rank(given)]
        elif shares and shares[0] is not None:
            given["scatter_object_output_list"][0] = shares[0]
            self._note("an object that another rank would have scattered was taken from ours")
        else:
            found, _ = self._want(self._global(given, "src"), "scatter", ranks)
            if found is not None:
                given["scatter_object_output_list"][0] = found[self.rank(given)]
                return
            self._note("an object that another rank would have scattered was left as it was")

    def _send_object_list(self, original: Callable[[], Any], given: Arguments) -> Any:
        self._post(given["object_list"], "send", self._global(given, "dst"))
        return self._send(original)

    def _recv_object_list(self, _original: Callable[[], Any], given: Arguments) -> int:
        # Without a sender torch takes what comes from any.
        sender = self._global(given, "src")
        found, why = self._want(sender, "send", self._c10d.get_rank())
        if found is not None:
            given["object_list"][:] = found
            return sender
        if all(value is None for value in given["object_list"]):
            raise RuntimeError(
                f"rank {self._c10d.get_rank()} waits for objects of rank {sender}: {why}\n\n"
                "hint: in a pipeline, give `PipelineStage` its `input_args` and `output_args`"
            )
        self._note("objects that another rank would have sent were left as they were")
        return sender

    def _monitored_barrier(self, _original: Callable[[], Any], _given: Arguments) -> None:
        """Every other rank has been there already."""
