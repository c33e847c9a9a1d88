"""Sends messages between ranks that are processes, through the store of their group.

A wait ends when the sender has ended or at the timeout of the store; a note names the call that
waited, and later waits for the same rank end at once. Sees: `torch.distributed.distributed_c10d`.
Knows nothing of tensors.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.util import Finalize
from typing import Any
from weakref import WeakKeyDictionary

from floodmark import torch_private_distributed

#: A store refuses values of 8 MiB.
_PART_BYTES = 4 << 20
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.0002, 0.05


class RankMessages:
    """Sends and receives messages in groups. Ranks are numbered within the group."""

    def __init__(self, c10d: Any, note: Callable[[str], None]) -> None:
        self._c10d = c10d
        self._note = note
        #: The number of messages so far in each channel of a group.
        self._counts: WeakKeyDictionary[Any, Counter[str]] = WeakKeyDictionary()
        #: The ranks of each group for which calls no longer wait.
        self._silent: WeakKeyDictionary[Any, set[int]] = WeakKeyDictionary()
        #: The stores through which other ranks wait for this one, and its number there.
        self._waited_on: list[tuple[Any, int]] = []
        self._process = os.getpid()
        atexit.register(self._note_end)

    def store_of(self, group: Any) -> Any:
        """The store of the group; None for a group that torch did not create."""
        groups, _ = torch_private_distributed.process_groups(self._c10d)
        return groups.get(group, (None, None))[1]

    def next_key(self, group: Any, channel: str) -> str:
        """The key of the next message of a channel; every rank counts the messages."""
        if group not in self._counts:
            if not self._waited_on:
                # Children of `multiprocessing` run no handlers of `atexit`, and when they begin
                # they remove the finalizers of the parent.
                Finalize(None, self._note_end, exitpriority=0)
            self._counts[group] = Counter()
            self._waited_on.append((self.store_of(group), self._c10d.get_rank(group)))
        counts = self._counts[group]
        counts[channel] += 1
        return f"floodmark/{channel}/{counts[channel]}"

    def send(self, group: Any, key: str, content: bytes) -> None:
        """Write a message to the store."""
        store = self.store_of(group)
        for at in range(_PART_BYTES, len(content), _PART_BYTES):
            store.set(f"{key}/{at}", content[at : at + _PART_BYTES])
        store.set(key, f"{len(content)}\n".encode() + content[:_PART_BYTES])

    def receive(
        self, group: Any, key: str, *, sender: int, readers: int, call: str
    ) -> bytes | None:
        """Wait for a message of another rank; None if it does not send one."""
        store = self.store_of(group)
        try:
            why = self._wait(group, store, key, sender)
            if not why:
                return _read_message(store, key, readers)
        except RuntimeError:
            # The store has ended with the rank that ran it.
            why = "the store of the group does not answer"
        self._give_up(group, sender, f"`{call}` got no value from rank {{}}: {why}")
        return None

    def _wait(self, group: Any, store: Any, key: str, sender: int) -> str:
        """Wait for the message; returns why it is missing, or an empty text."""
        is_silent = sender in self._silent.get(group, ())
        seconds = store.timeout.total_seconds()
        end, pause = time.monotonic() + seconds, _SHORTEST_PAUSE
        while not store.check([key]):
            if is_silent:
                return "it sent none before"
            # A message from before its end has arrived by now.
            if store.check([_end_of(sender)]) and not store.check([key]):
                return "it has ended"
            if time.monotonic() > end:
                return f"it sent none for {seconds:g} s"
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        return ""

    def _give_up(self, group: Any, sender: int, what: str) -> None:
        """Stop waiting for a rank; the first time, add a note."""
        silent = self._silent.setdefault(group, set())
        if sender not in silent:
            silent.add(sender)
            in_world = self._c10d.get_global_rank(group, sender)
            self._note(f"{what.format(in_world)}; what it would send has no value")

    def _note_end(self) -> None:
        """Tell waiting ranks that this one ends."""
        if os.getpid() != self._process:
            return
        groups, _ = torch_private_distributed.process_groups(self._c10d)
        never_used = [
            (store, self._c10d.get_rank(group))
            for group, (_, store) in groups.items()
            if group not in self._counts
        ]
        for store, rank in (*self._waited_on, *never_used):
            # The store may have ended with the rank that ran it.
            with contextlib.suppress(Exception):
                store.set(_end_of(rank), "1")


def _end_of(rank: int) -> str:
    """The key that a rank sets when it ends."""
    return f"floodmark/ended/{rank}"


def _read_message(store: Any, key: str, readers: int) -> bytes:
    """Read a message that has arrived; the last reader deletes it."""
    length, _, content = store.get(key).partition(b"\n")
    parts = [f"{key}/{at}" for at in range(_PART_BYTES, int(length), _PART_BYTES)]
    content = b"".join((content, *map(store.get, parts)))
    count = f"{key}/readers"
    if readers == 1 or store.add(count, 1) == readers:
        for name in (key, *parts, *((count,) if readers > 1 else ())):
            store.delete_key(name)
    return content
