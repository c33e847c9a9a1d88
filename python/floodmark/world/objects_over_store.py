"""Python objects between ranks that run as processes: their bytes travel over the group's store.

torch sends objects as tensors of bytes, in several collectives. Its own functions run, so that all
tensors are allocated, but the collectives that they call also move the tensors' bytes: the
phantom's NCCL does not. Sees: `torch.distributed.distributed_c10d`. Talks to: the library.
"""

from __future__ import annotations

import ctypes
import inspect
import types
from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

from floodmark import torch_private
from floodmark._core import Certainty
from floodmark.world.process_groups import Members
from floodmark.world.replaced_names import Arguments, wrapped

_FUNCTIONS = (
    "all_gather_object",
    "gather_object",
    "broadcast_object_list",
    "scatter_object_list",
    "send_object_list",
    "recv_object_list",
)
_COLLECTIVES = ("all_gather", "gather", "broadcast", "scatter", "send", "recv")

#: A store refuses values of 8 MiB.
_PART_BYTES = 4 << 20


class ObjectsOverStore(Members):
    """torch's functions for objects, which reach the other processes."""

    def __init__(self, c10d: Any, phantom: Any) -> None:
        super().__init__(c10d)
        self._phantom = phantom
        #: How many messages each channel of a group has had.
        self._counts: WeakKeyDictionary[Any, Counter[str]] = WeakKeyDictionary()

    def functions(self) -> dict[str, Callable[..., Any]]:
        """The functions by the names of those that they stand in for."""
        found = {name: getattr(self._c10d, name, None) for name in _FUNCTIONS}
        return {name: self._with_own_calls(f) for name, f in found.items() if f is not None}

    def _with_own_calls(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose collectives are ours. Those of the program stay torch's."""
        inner: Any = inspect.unwrap(function)

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            names = {**vars(self._c10d), **self._calls()}
            own = types.FunctionType(
                inner.__code__, names, inner.__name__, inner.__defaults__, inner.__closure__
            )
            own.__kwdefaults__ = inner.__kwdefaults__
            return own(*args, **kwargs)

        return call

    def _calls(self) -> dict[str, Callable[..., Any]]:
        """What a function for objects finds under the names of torch's collectives."""
        calls = {
            name: wrapped(getattr(self._c10d, name), self._after(getattr(self, "_" + name)))
            for name in _COLLECTIVES
        }
        to_tensor = torch_private.object_to_tensor(self._c10d)
        return {
            **calls,
            "batch_isend_irecv": self._batch,
            to_tensor.__name__: self._known(to_tensor),
        }

    def _after(
        self, move: Callable[[Arguments], None]
    ) -> Callable[[Callable[[], Any], Arguments], Any]:
        """A call of the collective, which then moves the bytes."""

        def call(original: Callable[[], Any], given: Arguments) -> Any:
            result = original()
            is_fake = "fake" in str(self._c10d.get_backend(given.get("group")))
            # A warm process may have become the only one of its world.
            is_alone = self._phantom.machine.world is not None
            if not (is_fake or is_alone or self._store_of(given) is None):
                move(given)
            return result

        return call

    def _known(self, to_tensor: Callable[..., Any]) -> Callable[..., Any]:
        """The function that makes tensors of an object; all of their bytes are known."""

        def object_to_tensor(obj: Any, device: Any, *more: Any) -> tuple[Any, ...]:
            on_host = to_tensor(obj, "cpu", *more)
            tensors = tuple(tensor.to(device) for tensor in on_host)
            for tensor, host in zip(tensors, on_host, strict=True):
                if tensor.is_cuda:
                    self._write(tensor, _bytes_at(host))
            return tensors

        return object_to_tensor

    # The collectives.

    def _all_gather(self, given: Arguments) -> None:
        self._share(given, given["tensor_list"], self.size(given))

    def _gather(self, given: Arguments) -> None:
        outputs = given.get("gather_list") if self.is_it(given, "dst") else None
        self._share(given, outputs or (), 1)

    def _share(self, given: Arguments, outputs: Any, readers: int) -> None:
        """Every rank sends its tensor to the `readers` that have `outputs`."""
        tensor = given["tensor"]
        if not tensor.is_cuda:
            return
        key = f"shared/{self._next(given, 'shared')}"
        self._set(given, f"{key}/{self.rank(given)}", _bytes_at(tensor))
        for other, output in enumerate(outputs):
            self._write(output, self._get(given, f"{key}/{other}", readers))

    def _broadcast(self, given: Arguments) -> None:
        tensor = given["tensor"]
        if not tensor.is_cuda:
            return
        key = f"broadcast/{self._next(given, 'broadcast')}"
        if self.is_it(given, "src"):
            self._set(given, key, _bytes_at(tensor))
        else:
            self._write(tensor, self._get(given, key, self.size(given) - 1))

    def _scatter(self, given: Arguments) -> None:
        tensor = given["tensor"]
        if not tensor.is_cuda:
            return
        key = f"scatter/{self._next(given, 'scatter')}"
        if self.is_it(given, "src"):
            for other, share in enumerate(given.get("scatter_list") or ()):
                self._set(given, f"{key}/{other}", _bytes_at(share))
        self._write(tensor, self._get(given, f"{key}/{self.rank(given)}", 1))

    def _send(self, given: Arguments) -> None:
        if given["tensor"].is_cuda:
            channel = f"sent/{self.rank(given)}/{self.peer(given, 'dst')}"
            key = f"{channel}/{self._next(given, channel)}"
            self._set(given, key, _bytes_at(given["tensor"]))

    def _recv(self, given: Arguments) -> None:
        if given["tensor"].is_cuda:
            channel = f"sent/{self.peer(given, 'src')}/{self.rank(given)}"
            key = f"{channel}/{self._next(given, channel)}"
            self._write(given["tensor"], self._get(given, key, 1))

    def _batch(self, operations: list[Any]) -> Any:
        """Messages that belong together; torch's own have one."""
        work = self._c10d.batch_isend_irecv(operations)
        for one in operations:
            is_sent = one.op is self._c10d.isend
            side, move = ("dst", self._send) if is_sent else ("src", self._recv)
            given = {"tensor": one.tensor, "group": one.group, side: one.peer}
            self._after(move)(lambda: None, given)
        return work

    # The store.

    def _store_of(self, given: Arguments) -> Any:
        """The store of the group; None for a group that torch has not made itself."""
        group = given.get("group") or torch_private.default_group(self._c10d)
        groups, _ = torch_private.process_groups(self._c10d)
        return groups.get(group, (None, None))[1]

    def _next(self, given: Arguments, channel: str) -> int:
        """The number of a message: each rank counts alike."""
        group = given.get("group") or torch_private.default_group(self._c10d)
        counts = self._counts.setdefault(group, Counter())
        counts[channel] += 1
        return counts[channel]

    def _set(self, given: Arguments, key: str, data: bytes) -> None:
        store = self._store_of(given)
        parts = range(0, len(data), _PART_BYTES)
        for at in parts:
            store.set(f"floodmark/{key}/{at}", data[at : at + _PART_BYTES])
        store.set(f"floodmark/{key}", str(len(data)))

    def _get(self, given: Arguments, key: str, readers: int) -> bytes:
        """What another rank set or will set: the store waits for it. The last reader deletes it."""
        store, key = self._store_of(given), f"floodmark/{key}"
        length = int(store.get(key))
        parts = [f"{key}/{at}" for at in range(0, length, _PART_BYTES)]
        data = b"".join(map(store.get, parts))
        count = f"{key}/readers"
        if readers == 1 or store.add(count, 1) == readers:
            for name in (key, *parts, *((count,) if readers > 1 else ())):
                store.delete_key(name)
        return data

    def _write(self, tensor: Any, data: bytes) -> None:
        """Let the device tensor have these bytes."""
        length = min(len(data), tensor.numel() * tensor.element_size())
        ctypes.memmove(tensor.data_ptr(), data, length)
        self._phantom.library.set_certainty(tensor.data_ptr(), length, Certainty.KNOWN)


def _bytes_at(tensor: Any) -> bytes:
    """The bytes of a contiguous tensor; zeros where a device has none."""
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())
