"""Ends a fork of a warm process without destroying the imported modules.

Python destroys every module at the end of a process. With torch and other libraries that takes a
second, and in a fork it frees nothing but copies. So a fork whose exit status is known leaves as
soon as the exit handlers of the program and of the recorder have run and its files are flushed.
Searching all objects for such files would copy most of the shared memory, so the fork searches only
if it has opened a file. Does nothing in any other process.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import os
import stat
import sys
from pathlib import Path

_is_fork = False
#: The descriptors that were open at the fork.
_inherited: frozenset[int] = frozenset()
_status: int | None = None


def in_fork() -> None:
    """Register in a fork, before its run: the handler then runs last."""
    global _is_fork, _inherited
    _is_fork = True
    _inherited = frozenset(_descriptors() or ())
    atexit.register(_leave)


def note(status: object) -> None:
    """Set the exit status of the run, or the argument of its `SystemExit`."""
    global _status
    if status is None:
        _status = 0
    elif isinstance(status, int):
        _status = status & 0xFF


def _leave() -> None:
    if not _is_fork or _status is None:
        return
    for one in gc.get_objects() if _may_have_unwritten_files() else (sys.stdout, sys.stderr):
        if type(one) in (io.TextIOWrapper, io.BufferedWriter):
            with contextlib.suppress(Exception):
                one.flush()
    os._exit(_status)


def _may_have_unwritten_files() -> bool:
    """Whether this fork has opened a file for writing that is still open."""
    descriptors = _descriptors()
    return descriptors is None or any(map(_is_written_file, descriptors - _inherited))


def _descriptors() -> set[int] | None:
    try:
        return {int(one.name) for one in Path("/proc/self/fd").iterdir()}
    except OSError:
        return None


def _is_written_file(descriptor: int) -> bool:
    import fcntl

    try:
        is_read_only = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
        return not is_read_only and stat.S_ISREG(os.fstat(descriptor).st_mode)
    except OSError:
        # The descriptor of `/proc/self/fd` itself, which is closed again.
        return False
