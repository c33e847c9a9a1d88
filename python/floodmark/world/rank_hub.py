"""Starts further ranks of a world when the estimated one waits for their objects.

The hub is a process that was forked before the program began. A rank sends it the objects for other
ranks, and requests those of others. If a requested rank does not run, the hub forks: the fork runs
the program from its beginning as that rank. It is stopped while no rank waits for it, and killed
with the hub, which ends with the estimate. Sees: messages. Knows nothing of torch.
"""

from __future__ import annotations

import contextlib
import os
import signal
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

#: The key of an object: sender, kind of call, receivers, and number of the message.
Key = tuple[Any, ...]

_seat: Seat | None = None


class Seat:
    """A rank's connection to the hub."""

    def __init__(self, rank: int, connection: Connection[Any, Any], *, is_started: bool) -> None:
        self.rank = rank
        #: Whether the hub started this process.
        self.is_started = is_started
        self._connection = connection

    def post(self, key: Key, data: bytes) -> None:
        """Send an object, for a rank that waits for it now or later."""
        with contextlib.suppress(OSError):
            self._connection.send(("post", key, data))

    def want(self, key: Key) -> tuple[bytes | None, str]:
        """Wait for an object of rank `key[0]`; or None and the reason."""
        try:
            self._connection.send(("want", key))
            data, why = self._connection.recv()
        except (OSError, EOFError):
            return None, "the processes of the other ranks are gone"
        return data, why

    def fail(self, why: str) -> None:
        """Report why this rank ends."""
        with contextlib.suppress(OSError):
            self._connection.send(("fail", why))

    def make_current(self) -> None:
        """Make this the seat that `current` returns."""
        global _seat
        _seat = self

    def close(self) -> None:
        """Close the connection in this process; a fork uses it."""
        self._connection.close()


def current() -> Seat | None:
    """The seat of this process, or None."""
    return _seat


def open_seats(rank: int) -> Seat:
    """Fork a hub; returns the seat of `rank`, and in a rank that the hub starts, that rank's."""
    ours, theirs = Pipe()
    starter = os.getpid()
    if os.fork():
        theirs.close()
        return Seat(rank, ours, is_started=False)
    ours.close()
    # Signals of a terminal are for the program; the hub ends with it.
    os.setpgid(0, 0)
    seat: Seat | None = None
    try:
        if os.getppid() == starter:
            seat = _Hub(rank, theirs).serve()
    finally:
        if seat is None:
            os._exit(0)
    return seat


class _Rank:
    """A running rank."""

    def __init__(self, rank: int, connection: Connection[Any, Any], pid: int | None) -> None:
        self.rank = rank
        self.connection = connection
        self.pid = pid
        self.waits_for: Key | None = None

    def signal(self, number: int) -> None:
        """Send a signal to a rank that the hub started."""
        if self.pid is not None:
            with contextlib.suppress(OSError):
                os.kill(self.pid, number)


class _Hub:
    """The posted objects, and the ranks that wait."""

    def __init__(self, rank: int, connection: Connection[Any, Any]) -> None:
        self._ranks = {rank: _Rank(rank, connection, None)}
        self._first = rank
        self._posts: dict[Key, bytes] = {}
        self._ended: dict[int, str] = {}

    def serve(self) -> Seat | None:
        """Serve until the first rank has ended. Returns a seat in the fork of another rank."""
        while self._first in self._ranks:
            by_connection = {one.connection: one for one in self._ranks.values()}
            for ready in wait(list(by_connection)):
                seat = self._receive(by_connection[ready])  # type: ignore[index]
                if seat is not None:
                    return seat
        for rank in self._ranks.values():
            rank.signal(signal.SIGKILL)
        return None

    def _receive(self, rank: _Rank) -> Seat | None:
        try:
            kind, *content = rank.connection.recv()
        except (OSError, EOFError):
            del self._ranks[rank.rank]
            self._ended.setdefault(rank.rank, "it has ended")
            if rank.pid is not None:
                os.waitpid(rank.pid, 0)
            return self._answer_all()
        if kind == "post":
            key, data = content
            self._posts[key] = data
        elif kind == "want":
            rank.waits_for = content[0]
        else:
            self._ended[rank.rank] = content[0]
        return self._answer_all()

    def _answer_all(self) -> Seat | None:
        """Answer waiting ranks, start the ranks they wait for, and stop the others."""
        for rank in list(self._ranks.values()):
            key = rank.waits_for
            if key is None:
                continue
            if key in self._posts:
                self._answer(rank, self._posts[key], "")
            elif key[0] not in self._ranks:
                if key[0] in self._ended:
                    self._answer(rank, None, f"rank {key[0]} sends none: {self._ended[key[0]]}")
                    continue
                seat = self._start(key[0])
                if seat is not None:
                    return seat
        if self._ranks and all(one.waits_for is not None for one in self._ranks.values()):
            for rank in self._ranks.values():
                self._answer(rank, None, "every rank that runs waits for objects of another")
        self._stop_idle_ranks()
        return None

    def _answer(self, rank: _Rank, data: bytes | None, why: str) -> None:
        rank.waits_for = None
        with contextlib.suppress(OSError):
            rank.connection.send((data, why))

    def _stop_idle_ranks(self) -> None:
        """Continue the started ranks for which another one waits, and stop the rest."""
        asked = {one.waits_for[0] for one in self._ranks.values() if one.waits_for is not None}
        for rank in self._ranks.values():
            rank.signal(signal.SIGCONT if rank.rank in asked else signal.SIGSTOP)

    def _start(self, rank: int) -> Seat | None:
        """Fork a rank; returns its seat in the fork, None in the hub."""
        ours, theirs = Pipe()
        pid = os.fork()
        if pid == 0:
            for other in self._ranks.values():
                other.connection.close()
            ours.close()
            return Seat(rank, theirs, is_started=True)
        theirs.close()
        self._ranks[rank] = _Rank(rank, ours, pid)
        return None
