"""Ports that one test has for itself."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_port() -> Iterator[int]:
    """A port of loopback that no other process is given as a free one.

    A socket is bound to it and does not listen. Another one with `SO_REUSEADDR`, as servers have
    it, can still be bound to the port and listen there.
    """
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]
