"""A child of a process that has torch loaded: forked, watched through shared memory, ended by its
number.

A fork costs milliseconds where a new process costs seconds, and nothing of floodmark has begun
before it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path

#: A machine may be suspended, and a child with it. Longer than this is not waited.
PATIENCE = 600.0
_TICKS = os.sysconf("SC_CLK_TCK")


class Numbers:
    """Numbers that outlive a process which writes them."""

    def __init__(self, count: int) -> None:
        self._memory = mmap.mmap(-1, 8 * count)
        self._numbers = (ctypes.c_uint64 * count).from_buffer(self._memory)

    def __getitem__(self, at: int) -> int:
        return int(self._numbers[at])

    def __setitem__(self, at: int, value: int) -> None:
        self._numbers[at] = value


class Child:
    """A forked process that runs one function."""

    def __init__(self, work: Callable[[], None], folder: Path) -> None:
        read_end, write_end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _run(work, folder, write_end)
        os.close(write_end)
        self._said = read_end

    def cpu_seconds(self) -> float:
        """How long it has computed."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def has_ended(self) -> bool:
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> tuple[int, str]:
        """Its status as `subprocess` gives it, and what it wrote on stderr."""
        said = b""
        while part := os.read(self._said, 1 << 16):
            said += part
        os.close(self._said)
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status), said.decode(errors="replace")


def _run(work: Callable[[], None], folder: Path, stderr: int) -> None:
    status = 1
    try:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.chdir(folder)
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        # What a program does at its end, without the parent's handlers.
        os._exit(status)


def wait_for(is_so: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Wait for a state; whether it came."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.001)
    return True
