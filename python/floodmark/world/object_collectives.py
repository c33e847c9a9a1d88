"""Replaces the collectives for Python objects, and `monitored_barrier`, in a world of one process.

torch sends objects as tensors of bytes. Objects of other ranks are assumed to equal those of this
rank, if it has some; otherwise the hub, if any, starts the rank that sends them. Sees:
`torch.distributed.distributed_c10d`. Talks to: the hub.
"""

from __future__ import annotations

import contextlib
import pickle
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from floodmark import torch_private_distributed
from floodmark.world import rank_hub
from floodmark.world.process_groups import Members
from floodmark.world.replaced_names import Arguments, wrapped

#: torch's own function; if tensors have bytes, it returns this rank's object for every rank.
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
    """Replacements for the functions that send objects.

    `has_bytes` says whether tensors have values, so that torch's own functions can run.
    """

    def __init__(self, c10d: Any, note: Callable[[str], None], *, has_bytes: bool) -> None:
        super().__init__(c10d)
        self._note = note
        self._has_bytes = has_bytes
        self._seat = rank_hub.current()
        self._counts: Counter[tuple[Any, ...]] = Counter()

    def functions(self) -> dict[str, Callable[..., Any]]:
        """The replacements by the names of the original functions."""
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
        """Call torch's function, if tensors have bytes."""
        return original() if self._has_bytes else None

    def _post(self, sent: Any, *channel: Any) -> None:
        """Post this rank's objects to the hub, for ranks that it has started."""
        if self._seat is not None:
            # torch reports objects that cannot be pickled.
            with contextlib.suppress(Exception):
                self._seat.post(self._key(self._seat.rank, *channel), pickle.dumps(sent))

    def _want(self, sender: int, *channel: Any) -> tuple[Any, str]:
        """The objects that another rank posts, after starting it if necessary; or None and the
        reason."""
        if self._seat is None:
            return None, "it does not run"
        key = self._key(sender, *channel)
        self._note(f"rank {sender} runs too, because rank {self._seat.rank} waits for its objects")
        data, why = self._seat.want(key)
        return (None if data is None else pickle.loads(data)), why

    def _key(self, *channel: Any) -> tuple[Any, ...]:
        """The key of the next message of a channel; both ends count the messages."""
        self._counts[channel] += 1
        return (*channel, self._counts[channel])

    def _ranks(self, given: Arguments) -> tuple[int, ...]:
        group = given.get("group") or torch_private_distributed.default_group(self._c10d)
        return tuple(self._c10d.get_process_group_ranks(group))

    def _global(self, given: Arguments, side: str) -> int:
        """The global rank that `src` or `dst` (or `group_src` …) names."""
        return self._ranks(given)[self.peer(given, side)]

    def _all_gather_object(self, _original: Callable[[], Any], given: Arguments) -> None:
        shares, size = given["object_list"], self.size(given)
        shares[:size] = [given["obj"]] * min(size, len(shares))
        if size > 1:
            self._note("objects that other ranks would have sent were assumed to be this rank's")

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
        # Without a sender, torch receives from any rank.
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
        """Return at once: the other ranks count as present."""
