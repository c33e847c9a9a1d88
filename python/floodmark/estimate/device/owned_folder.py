"""Temporary folders that are owned by a running process.

The owner has a lock on its folder. The kernel drops the lock when its last process ends, and the
lock is visible in every PID namespace, unlike a PID. A file in the folder marks it as one of these:
a folder without it, or of another user, is never removed.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

#: Programs close the low descriptors; ours is above them.
_LOWEST_DESCRIPTOR = 900

#: The file that marks a folder as ours.
_MARKER = ".floodmark-owned-folder"


def make(prefix: str) -> str:
    """Make a folder that is removed at the end of this process, or by a later one."""
    import fcntl

    folder = tempfile.mkdtemp(prefix=prefix)
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(opened, fcntl.LOCK_EX)
    # Written under the lock: a folder with this file and without a lock has no owner.
    Path(folder, _MARKER).touch(mode=0o600)
    with contextlib.suppress(OSError):
        high = fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, _LOWEST_DESCRIPTOR)
        os.close(opened)
        opened = high
    atexit.register(_leave, opened, folder)
    return folder


def remove_left(prefix: str) -> None:
    """Remove the folders whose owners have ended without removing them."""
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        _remove_unowned(str(left))


def _leave(descriptor: int, folder: str) -> None:
    """Remove the folder, unless a forked process shares the lock and still runs."""
    with contextlib.suppress(OSError):
        if _is_same(descriptor, folder):
            os.close(descriptor)
            _remove_unowned(folder)


def _remove_unowned(folder: str) -> None:
    import fcntl

    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        # The path was removed, is not a folder, or belongs to another user.
        return
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_ours(opened):
            shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        # The owner still runs.
        pass
    finally:
        os.close(opened)


def _is_ours(opened: int) -> bool:
    """Whether `make` created this open folder for this user."""
    about = [os.fstat(opened)]
    with contextlib.suppress(FileNotFoundError):
        about.append(os.stat(_MARKER, dir_fd=opened, follow_symlinks=False))
    is_marked = stat.S_ISREG(about[-1].st_mode)
    return is_marked and all(one.st_uid == os.getuid() for one in about)


def _is_same(descriptor: int, folder: str) -> bool:
    """Whether a descriptor refers to this folder."""
    try:
        return os.path.samestat(os.fstat(descriptor), Path(folder).stat())
    except OSError:
        return False
