"""Temporary folders that belong to a process for as long as it runs.

The owner holds a lock on its folder. The kernel drops the lock when the last process that has it
ends, however it ends, and a lock is seen from every PID namespace; a process number is not. A file
in the folder says that it is one of these: a folder without it, or of another user, is never
removed, whatever its name is.
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

#: The file that only our folders have.
_MARKER = ".floodmark-owned-folder"


def make(prefix: str) -> str:
    """Make a folder that is removed at the end of this process, or by a later one."""
    import fcntl

    folder = tempfile.mkdtemp(prefix=prefix)
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(opened, fcntl.LOCK_EX)
    # Under the lock: what has it, and no lock, was left.
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
    """Forked processes share the lock: the folder stays while one of them runs."""
    with contextlib.suppress(OSError):
        if _is_same(descriptor, folder):
            os.close(descriptor)
            _remove_unowned(folder)


def _remove_unowned(folder: str) -> None:
    import fcntl

    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        # It is gone, no folder, or another user's.
        return
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_ours(opened):
            shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        # Its owner runs.
        pass
    finally:
        os.close(opened)


def _is_ours(opened: int) -> bool:
    """Whether `make` has made an open folder, for this user."""
    about = [os.fstat(opened)]
    with contextlib.suppress(FileNotFoundError):
        about.append(os.stat(_MARKER, dir_fd=opened, follow_symlinks=False))
    is_marked = stat.S_ISREG(about[-1].st_mode)
    return is_marked and all(one.st_uid == os.getuid() for one in about)


def _is_same(descriptor: int, folder: str) -> bool:
    """Whether a descriptor is that folder's."""
    try:
        return os.path.samestat(os.fstat(descriptor), Path(folder).stat())
    except OSError:
        return False
