"""Runs a program in a fork, so that this process can answer however the program ends.

This process forwards signals of other processes to the program; signals of a terminal reach both.
The program is killed when this process ends, and this one when the `floodmark fit` or `floodmark
mcp` that started it ends. Sees: processes and signals. Knows nothing of traces.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys

_PASSED_ON = {
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
}
_PR_SET_PDEATHSIG = 1
#: The PID of the process that started this one; this one ends with it. `floodmark fit` and
#: `floodmark mcp` set it.
_VARIABLE = "FLOODMARK_ENDS_WITH"


class Child:
    """The process of the program, for its parent."""

    def __init__(self, pid: int, mask: set[signal.Signals]) -> None:
        self.pid = pid
        self._mask = mask

    def wait(self) -> int:
        """Wait for its end; returns the status of `os.waitpid`."""
        status = self._ended()
        while status is None:
            info = signal.sigwaitinfo(_PASSED_ON | {signal.SIGCHLD})
            if info.si_signo == signal.SIGCHLD:
                status = self._ended()
            elif info.si_code <= 0:
                # Sent by a process. A signal of a terminal has reached the program too.
                os.kill(self.pid, info.si_signo)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        return status

    def _ended(self) -> int | None:
        done, status = os.waitpid(self.pid, os.WNOHANG)
        return status if done else None


def fork() -> Child | None:
    """Fork; returns the child to wait for, and None in the child itself."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON | {signal.SIGCHLD})
    # With `SIGCHLD` ignored, there would be no status to wait for.
    of_children = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return Child(pid, {signal.Signals(number) for number in mask})
    end_with(parent)
    signal.signal(signal.SIGCHLD, of_children)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return None


def set_starter(starter: int) -> None:
    """Set the process for `end_with_starter`."""
    os.environ[_VARIABLE] = str(starter)


def end_with_starter() -> None:
    """Kill this process when the one that started it ends."""
    starter = os.environ.pop(_VARIABLE, "")
    if starter.isdigit():
        end_with(int(starter))


def end_with(parent: int) -> None:
    """Kill this process when its parent ends."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def error_of(status: int) -> str:
    """The error of a program that ended with this status; empty after success."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with contextlib.suppress(ValueError):
            return f"killed by {signal.Signals(number).name}"
        return f"killed by signal {number}"
    code = os.WEXITSTATUS(status)
    return f"exit status {code}" if code else ""


def end_like(status: int) -> int:
    """The program's exit status; if a signal killed it, kill this process with the same signal."""
    if not os.WIFSIGNALED(status):
        return os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    with contextlib.suppress(OSError, ValueError):
        # Write no second core dump.
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with contextlib.suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number
