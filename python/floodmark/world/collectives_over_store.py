"""Moves the values of small tensors between ranks that are processes, through the group's store.

The phantom's NCCL moves nothing between processes. So after a collective of torch has run, its
outputs get the values that the other ranks sent; a value that is unknown to the sender is unknown
to its receivers. An asynchronous call waits for values only when the program waits for its work.
Sees: `torch.distributed.distributed_c10d`. Talks to: the phantom's library.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any

from floodmark import torch_private, torch_private_distributed
from floodmark.world.process_groups import Members
from floodmark.world.rank_messages import RankMessages
from floodmark.world.replaced_names import Arguments, wrapped
from floodmark.world.tensor_contents import Content, Region, read, reduced, region_of, write

#: A generator: what to do before torch's collective runs, and after it.
Steps = Iterator[None]

_COLLECTIVES = (
    "broadcast",
    "all_gather",
    "all_gather_into_tensor",
    "gather",
    "scatter",
    "reduce",
    "all_reduce",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "all_to_all",
    "all_to_all_single",
    "send",
    "isend",
    "recv",
    "irecv",
    "batch_isend_irecv",
)
#: Backends that move values themselves.
_OF_HOST = ("gloo", "mpi", "ucc")


class _Call(Members):
    """One call of a collective: its arguments, and the messages that belong to it."""

    def __init__(
        self, c10d: Any, sends: tuple[Any, RankMessages, bool], name: str, given: Arguments
    ) -> None:
        super().__init__(c10d)
        self._library, self._messages, self._of_object = sends
        self._name = name
        self.given = given
        self.group = given.get("group") or torch_private_distributed.default_group(c10d)
        self.own, self.ranks = self.rank(given), self.size(given)
        self.others = [other for other in range(self.ranks) if other != self.own]

    def key(self, channel: str) -> str:
        return self._messages.next_key(self.group, channel)

    def followed(self, tensor: Any) -> Region | None:
        """The region of a tensor whose values move; None for other tensors."""
        if not tensor.is_cuda:
            return None
        region = region_of(tensor)
        return region if self._of_object or region.is_short else None

    def read(self, region: Region) -> Content:
        """The content of a region; all bytes of an object count as known."""
        return read(self._library, region, as_known=self._of_object)

    def write(self, region: Region, content: Content) -> None:
        write(self._library, region, content)

    def send(self, key: str, content: Content) -> None:
        self._messages.send(self.group, key, content.to_bytes())

    def receive(self, key: str, sender: int, readers: int = 1) -> Content:
        message = self._messages.receive(
            self.group, key, sender=sender, readers=readers, call=self._name
        )
        return Content.from_bytes(message)

    def reduced(self, region: Region, shares: list[Content]) -> Content:
        """The result of this call's reduction."""
        return reduced(self._c10d.ReduceOp, self.given["op"], region.dtype, shares)

    def share(self, region: Region, readers: int, reads: bool) -> Iterator[list[Content]]:
        """Every rank sends its content to the `readers`; `reads` says whether this one reads."""
        key, content = self.key("shared"), self.read(region)
        if readers > reads:
            self.send(f"{key}/{self.own}", content)
        yield []
        count = readers - 1 if readers > 1 else 1
        yield [
            content if other == self.own else self.receive(f"{key}/{other}", other, count)
            for other in (range(self.ranks) if reads else ())
        ]

    def exchange(self, inputs: list[Region], outputs: list[Region]) -> Iterator[list[Content]]:
        """Every rank sends a share to every other one. The content of a long share is empty."""
        key, own = self.key("exchanged"), self.read(inputs[self.own])
        for other in self.others:
            if inputs[other].is_short:
                self.send(f"{key}/{self.own}/{other}", self.read(inputs[other]))
        yield []
        empty = Content.from_bytes(None)
        yield [
            own
            if other == self.own
            else self.receive(f"{key}/{other}/{self.own}", other)
            if outputs[other].is_short
            else empty
            for other in range(self.ranks)
        ]


class CollectivesOverStore(Members):
    """Wraps torch's collectives so that they receive the values of other processes."""

    def __init__(self, c10d: Any, phantom: Any, messages: RankMessages) -> None:
        super().__init__(c10d)
        self._phantom = phantom
        self._messages = messages
        self._originals = {name: getattr(c10d, name, None) for name in _COLLECTIVES}
        self._local = threading.local()

    def functions(self, *, of_objects: bool = False) -> dict[str, Callable[..., Any]]:
        """The wrappers by the names of the original functions."""
        return {
            name: wrapped(original, partial(self._call, name, of_objects))
            for name, original in self._originals.items()
            if original is not None
        }

    def _call(
        self, name: str, of_objects: bool, original: Callable[[], Any], given: Arguments
    ) -> Any:
        """Call a collective, and move values before and after it."""
        steps = self._steps(name, of_objects, given)
        if steps is None:
            return original()
        # torch's `send` calls `isend`, which sends this message.
        self._local.is_inside = True
        try:
            is_begun = _advance(steps)
            done = original()
        finally:
            self._local.is_inside = False
        if is_begun:
            return self._with_values(done, partial(_advance, steps))
        return done

    def _with_values(self, done: Any, finish: Callable[[], Any]) -> Any:
        """The result of a collective; its values are received now, or when its work is waited
        for."""
        kind = torch_private_distributed.c10d_bindings().Work
        if isinstance(done, kind):
            return _pending_work()(done, finish)
        if isinstance(done, list) and any(isinstance(work, kind) for work in done):
            return [_pending_work()(work, finish) for work in done]
        finish()
        return done

    def _steps(self, name: str, of_objects: bool, given: Arguments) -> Steps | None:
        """The steps that move the values of a call; None if none move."""
        with contextlib.suppress(Exception):
            if getattr(self._local, "is_inside", False):
                return None
            if name == "batch_isend_irecv":
                parts = [self._message(one, of_objects) for one in given["p2p_op_list"]]
                return _together([steps for steps in parts if steps is not None])
            if self._has_processes(given):
                sends = (self._phantom.library, self._messages, of_objects)
                moves: Callable[[_Call], Steps] = getattr(_Moves, name)
                return moves(_Call(self._c10d, sends, name, given))
        # torch reports wrong arguments.
        return None

    def _message(self, one: Any, of_objects: bool) -> Steps | None:
        """The steps of a message in a batch."""
        # The batch has torch's functions or their wrappers.
        is_sent = one.op.__name__ == "isend"
        name, side = ("isend", "dst") if is_sent else ("irecv", "src")
        given = {"tensor": one.tensor, "group": one.group, side: one.peer}
        return self._steps(name, of_objects, given)

    def _has_processes(self, given: Arguments) -> bool:
        """Whether a call involves other processes whose values torch does not move."""
        if self.is_outside(given) or self.size(given) == 1:
            return False
        backend = str(self._c10d.get_backend(given.get("group")))
        group = given.get("group") or torch_private_distributed.default_group(self._c10d)
        return not (
            "fake" in backend
            or backend in _OF_HOST
            # A fork of a warm process may be the only rank of its world.
            or self._phantom.machine.world is not None
            or self._messages.store_of(group) is None
            # torch is coalescing calls and runs them later.
            or torch_private_distributed.is_coalescing(self._c10d, group)
        )


class _Moves:
    """The steps of each collective."""

    @staticmethod
    def broadcast(call: _Call) -> Steps:
        region = call.followed(call.given["tensor"])
        if region is None:
            return
        key, source = call.key("broadcast"), call.peer(call.given, "src")
        if source == call.own:
            call.send(key, call.read(region))
            return
        yield
        call.write(region, call.receive(key, source, call.ranks - 1))

    @staticmethod
    def _gathered(call: _Call, region: Region, outputs: list[Region], readers: int) -> Steps:
        shares = call.share(region, readers, bool(outputs))
        next(shares)
        yield
        for output, content in zip(outputs, next(shares), strict=False):
            call.write(output, content)

    @staticmethod
    def all_gather(call: _Call) -> Steps:
        region = call.followed(call.given["tensor"])
        if region is not None:
            outputs = list(map(region_of, call.given["tensor_list"]))
            yield from _Moves._gathered(call, region, outputs, call.ranks)

    @staticmethod
    def all_gather_into_tensor(call: _Call) -> Steps:
        region = call.followed(call.given["input_tensor"])
        if region is not None:
            output = region_of(call.given["output_tensor"])
            outputs = output.parts([region.numbers] * call.ranks)
            yield from _Moves._gathered(call, region, outputs, call.ranks)

    @staticmethod
    def gather(call: _Call) -> Steps:
        region = call.followed(call.given["tensor"])
        if region is not None:
            is_target = call.peer(call.given, "dst") == call.own
            tensors = call.given.get("gather_list") if is_target else None
            yield from _Moves._gathered(call, region, list(map(region_of, tensors or ())), 1)

    @staticmethod
    def scatter(call: _Call) -> Steps:
        region = call.followed(call.given["tensor"])
        if region is None:
            return
        key, source = call.key("scattered"), call.peer(call.given, "src")
        own = None
        if source == call.own:
            shares = [call.read(region_of(one)) for one in call.given["scatter_list"]]
            for other in call.others:
                call.send(f"{key}/{other}", shares[other])
            own = shares[call.own]
        yield
        call.write(region, own or call.receive(f"{key}/{call.own}", source))

    @staticmethod
    def _reduced(call: _Call, region: Region, readers: int, reads: bool) -> Steps:
        shares = call.share(region, readers, reads)
        next(shares)
        yield
        contents = next(shares)
        if reads:
            call.write(region, call.reduced(region, contents))

    @staticmethod
    def reduce(call: _Call) -> Steps:
        region = call.followed(call.given["tensor"])
        if region is not None:
            is_target = call.peer(call.given, "dst") == call.own
            yield from _Moves._reduced(call, region, 1, is_target)

    @staticmethod
    def all_reduce(call: _Call) -> Steps:
        region = call.followed(call.given["tensor"])
        if region is not None:
            yield from _Moves._reduced(call, region, call.ranks, True)

    @staticmethod
    def _scattered(call: _Call, inputs: list[Region], output: Region) -> Steps:
        shares = call.exchange(inputs, [output] * call.ranks)
        next(shares)
        yield
        contents = next(shares)
        if output.is_short:
            call.write(output, call.reduced(output, contents))

    @staticmethod
    def reduce_scatter(call: _Call) -> Steps:
        if call.given["output"].is_cuda:
            inputs = list(map(region_of, call.given["input_list"]))
            yield from _Moves._scattered(call, inputs, region_of(call.given["output"]))

    @staticmethod
    def reduce_scatter_tensor(call: _Call) -> Steps:
        output = call.followed(call.given["output"])
        if output is not None:
            inputs = region_of(call.given["input"]).parts([output.numbers] * call.ranks)
            yield from _Moves._scattered(call, inputs, output)

    @staticmethod
    def _exchanged(call: _Call, inputs: list[Region], outputs: list[Region]) -> Steps:
        shares = call.exchange(inputs, outputs)
        next(shares)
        yield
        for output, content in zip(outputs, next(shares), strict=True):
            if output.is_short:
                call.write(output, content)

    @staticmethod
    def all_to_all(call: _Call) -> Steps:
        outputs, inputs = call.given["output_tensor_list"], call.given["input_tensor_list"]
        if all(one.is_cuda for one in (*outputs, *inputs)):
            regions = (list(map(region_of, inputs)), list(map(region_of, outputs)))
            yield from _Moves._exchanged(call, *regions)

    @staticmethod
    def all_to_all_single(call: _Call) -> Steps:
        output, given = call.given["output"], call.given["input"]
        if output.is_cuda:
            yield from _Moves._exchanged(
                call,
                _splits(given, call.given.get("input_split_sizes"), call.ranks),
                _splits(output, call.given.get("output_split_sizes"), call.ranks),
            )

    @staticmethod
    def isend(call: _Call) -> Steps:
        region = call.followed(call.given["tensor"])
        if region is not None:
            peer = call.peer(call.given, "dst")
            call.send(call.key(f"sent/{call.own}/{peer}"), call.read(region))
        return
        yield

    @staticmethod
    def irecv(call: _Call) -> Steps:
        region = call.followed(call.given["tensor"])
        if region is None or _is_from_any(call.given):
            return
        peer = call.peer(call.given, "src")
        key = call.key(f"sent/{peer}/{call.own}")
        yield
        call.write(region, call.receive(key, peer))

    send, recv = isend, irecv


def _is_from_any(given: Arguments) -> bool:
    """Whether a receive accepts any rank, which NCCL does not support."""
    return given.get("src") is None and given.get("group_src") is None


def _splits(tensor: Any, sizes: Any, ranks: int) -> list[Region]:
    """The rows of a tensor for each rank."""
    rows = tensor.shape[0] if tensor.dim() else 1
    row = tensor.numel() // max(rows, 1)
    return region_of(tensor).parts([row * size for size in sizes or [rows // ranks] * ranks])


def _together(all_steps: list[Steps]) -> Steps:
    """Combine the steps of several calls: all send before any receives."""
    begun = [steps for steps in all_steps if _advance(steps)]
    if begun:
        yield
        for steps in begun:
            _advance(steps)


def _advance(steps: Steps) -> bool:
    """Run the next step; False if there was none. Never raises into the program."""
    import torch

    with contextlib.suppress(Exception), torch_private.without_function_modes(torch):
        next(steps)
        return True
    return False


@lru_cache(maxsize=1)
def _pending_work() -> Any:
    base: Any = torch_private_distributed.c10d_bindings().Work

    class PendingWork(base):  # type: ignore[misc]
        """Work that receives its values when the program waits for it."""

        def __init__(self, work: Any, finish: Callable[[], Any]) -> None:
            super().__init__()
            self._work = work
            self._finish = finish

        def wait(self, *args: Any, **kwargs: Any) -> Any:
            done = self._work.wait(*args, **kwargs)
            self._finish()
            return done

        def synchronize(self) -> None:
            self._work.synchronize()
            self._finish()

    def passed_on(name: str) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            return getattr(self._work, name)(*args, **kwargs)

        return call

    for name in set(dir(base)) - set(dir(object)) - {"wait", "synchronize"}:
        if not name.startswith("__") and callable(getattr(base, name)):
            setattr(PendingWork, name, passed_on(name))
    return PendingWork
