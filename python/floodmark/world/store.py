"""A store of torch.distributed for a rank whose peers do not run.

For a key that another rank would set, it returns the value of this rank's own key; a wait returns
at once. Sees: `Store` of torch, whose C++ users call back into it. Knows nothing of groups.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

# The size of the id that ranks exchange for a communicator; its content does not matter.
_UNIQUE_ID = bytes(128)
_UNIQUE_ID_KEY = re.compile(r"cuda/|UniqueNCCLID")

# torch's C++ objects do not keep the Python object of a store alive.
_alive: list[Any] = []


def store_class(base: Any, rank: int, world: int, note: Callable[[str], None]) -> Any:
    """A subclass of `base`, torch's `Store`."""

    class WorldStore(base):  # type: ignore[misc]
        """The store of a world, as one of its ranks sees it."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__()
            self._values: dict[str, bytes] = {}
            self._counts: dict[str, int] = {}
            self._queues: dict[str, list[bytes]] = {}
            names = ("host_name", "port")
            given = dict(zip(names, args, strict=False)) | kwargs
            self.host = given.get("host_name", "localhost")
            self.port = given.get("port") or 29500
            self.path = given.get("file_name", args[0] if args else "")
            _alive.append(self)

        def set(self, key: str, value: str | bytes) -> None:
            self._values[key] = _bytes(value)

        def get(self, key: str) -> bytes:
            value = self._values.get(key)
            if value is not None:
                return value
            if key in self._counts:
                return str(self._counts[key] * world).encode()
            for own in _own_keys(key, rank):
                if own in self._values:
                    return self._values[own]
            if _UNIQUE_ID_KEY.search(key):
                return _UNIQUE_ID
            note(f"the store's `{key}`, which another rank would set, was assumed to be 0")
            return b"0"

        def add(self, key: str, amount: int) -> int:
            """Add this rank's amount; adding 0 returns the sum of all ranks, assumed equal."""
            self._counts[key] = self._counts.get(key, 0) + amount
            return self._counts[key] * (1 if amount else world)

        def compare_set(self, key: str, expected: str | bytes, desired: str | bytes) -> bytes:
            present = self._values.get(key)
            if present == _bytes(expected) or (present is None and not expected):
                self._values[key] = _bytes(desired)
            return self._values.get(key, _bytes(expected))

        def append(self, key: str, value: str | bytes) -> None:
            self._values[key] = self._values.get(key, b"") + _bytes(value)

        def multi_get(self, keys: Sequence[str]) -> list[bytes]:
            return [self.get(key) for key in keys]

        def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
            for key, value in zip(keys, values, strict=True):
                self.set(key, value)

        def queue_push(self, key: str, value: str | bytes) -> None:
            self._queues.setdefault(key, []).append(_bytes(value))

        def queue_pop(self, key: str, *_args: Any, **_kwargs: Any) -> bytes:
            queue = self._queues.get(key)
            return queue.pop(0) if queue else self.get(key)

        def queue_len(self, key: str) -> int:
            return len(self._queues.get(key, ()))

        def list_keys(self) -> list[str]:
            return [*self._values, *self._counts]

        def wait(self, *_args: Any, **_kwargs: Any) -> None:
            """Return at once: the other ranks count as present."""

        def check(self, _keys: Sequence[str]) -> bool:
            return True

        def delete_key(self, key: str) -> bool:
            is_value = self._values.pop(key, None) is not None
            return self._counts.pop(key, None) is not None or is_value

        def num_keys(self) -> int:
            return len(self._values) + len(self._counts)

        def has_extended_api(self) -> bool:
            return True

        def clone(self) -> Any:
            return self

        # The names by which C++ calls these methods.
        deleteKey = delete_key
        getNumKeys = num_keys

    return WorldStore


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _own_keys(key: str, rank: int) -> Iterator[str]:
    """Variants of the key with this rank's number in place of another's, the last number first."""
    for number in reversed(list(re.finditer(r"\d+", key))):
        yield key[: number.start()] + str(rank) + key[number.end() :]
