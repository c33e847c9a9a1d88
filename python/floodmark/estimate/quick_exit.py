"""Leaves a fork of a warm process without tearing down what it has imported.

Python destroys every module at the end of a process. With torch and other libraries that takes a
second, and in a fork it frees nothing but copies. So a fork whose exit status is known leaves as
soon as the exit handlers of the program and of the recorder have run and its files are flushed.
Does nothing in any other process.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import os

_is_fork = False
_status: int | None = None


def in_fork() -> None:
    """This process is a fork of a warm one, before its run. First in, last out."""
    global _is_fork
    _is_fork = True
    atexit.register(_leave)


def note(status: object) -> None:
    """The run has ended with this status, or with this argument of `SystemExit`."""
    global _status
    if status is None:
        _status = 0
    elif isinstance(status, int):
        _status = status & 0xFF


def _leave() -> None:
    if not _is_fork or _status is None:
        return
    for one in gc.get_objects():
        if type(one) in (io.TextIOWrapper, io.BufferedWriter):
            with contextlib.suppress(Exception):
                one.flush()
    os._exit(_status)
