"""A process with a program's imports that forks for each run of it.

    python -m floodmark.estimate.warm_process IMPORTS

`floodmark fit` and `floodmark plan` start one with the first run of a program. It imports the
modules that this run lists in `IMPORTS` while it runs, and then gets a line of JSON for each
further run. A fork does what `request_process` does, but torch and the other installed libraries
are imported already. CUDA is initialised in the fork, never here. If forking is not safe because a
library has started a thread or CUDA, the process prints `unsafe` and ends.

Sees: standard input and output. Talks to: `command`, `simulated_gpu`. Does not see programs.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

from floodmark import _core, torch_private
from floodmark.estimate import quick_exit, supervisor
from floodmark.estimate.command import estimate
from floodmark.estimate.import_log import Import, Run, change_environment
from floodmark.estimate.phantom import simulated_gpu

#: Programs close the low descriptors; ours is above them.
_LOWEST_DESCRIPTOR = 900

#: Threads that their library restarts in a fork: jemalloc's, in pyarrow.
_KNOW_OF_FORKS = frozenset({"jemalloc_bg_thd"})

#: Seconds between two reads of the first run's log.
_SECONDS_BETWEEN = 0.02


class UnsafeError(Exception):
    """This process must not be forked; the message is the reason."""


class Request(TypedDict):
    """One run of the program."""

    id: int
    #: An `_core.EstimateRequest` as JSON.
    estimate: dict[str, Any]
    #: The program and its arguments.
    words: list[str]
    #: Variables that differ from those of this process.
    environment: dict[str, str]
    stdout: str
    stderr: str


def main() -> int:
    """Import, then fork for each request; returns the exit status, in a fork that of the run."""
    lines = _lines(Path(sys.argv[1]))
    environment, path = dict(os.environ), list(sys.path)
    answers = _move_stdout()
    run: Run | None = next(lines, None)
    if run is None:
        return 1
    try:
        if run["engine"] == "phantom":
            simulated_gpu.prepare(_core.PhantomMachine.from_json(run["machine"]))
        of_gpu = {key: value for key, value in os.environ.items() if environment.get(key) != value}
        # `torch.cuda.is_available()` then uses NVML: after a call of CUDA, no fork could use CUDA.
        os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
        if not _import_all(lines):
            return 1
        _check_forks()
        # What is garbage here would be found in each fork.
        gc.collect()
    except (_core.PhantomError, UnsafeError) as error:
        os.write(answers, f"unsafe {str(error).splitlines()[0]}\n".encode())
        return 1
    os.write(answers, b"ready\n")
    request = _serve(answers)
    if request is None:
        # The libraries' exit handlers are not needed here.
        _run_exit_handlers()
        os._exit(0)
    quick_exit.in_fork()
    os.environ.clear()
    os.environ.update(environment)
    os.environ.update(request["environment"])
    # The first entry removes it; the others stay for compilers that look for a driver.
    os.environ.update(of_gpu)
    supervisor.set_starter(os.getppid())
    sys.path[:] = path
    # The same first entry as in `request_process`.
    words = ["", *request["words"]]
    sys.argv = [sys.argv[0], *words]
    sys.orig_argv = [sys.orig_argv[0], "-m", "floodmark.estimate.request_process", *words]
    status = estimate(_core.EstimateRequest.from_json(json.dumps(request["estimate"])))
    # Both the answering process and that of a finished program reach this line.
    quick_exit.note(status)
    return status


def _run_exit_handlers() -> None:
    """Remove the folder of the simulated GPU."""
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()


def _move_stdout() -> int:
    """The descriptor for answers. What libraries print while they are imported goes to stderr."""
    import fcntl

    answers = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, _LOWEST_DESCRIPTOR)
    os.dup2(2, 1)
    return answers


def _lines(path: Path) -> Iterator[Any]:
    """The lines of a log while it is written, until the starter no longer needs this process."""
    received, at = b"", 0
    while True:
        with contextlib.suppress(OSError), path.open("rb") as log:
            log.seek(at)
            data = log.read()
            at += len(data)
            *lines, received = (received + data).split(b"\n")
            yield from map(json.loads, lines)
        # No request comes before the answer: standard input is empty or closed.
        if select.select([0], [], [], _SECONDS_BETWEEN)[0]:
            return


def _import_all(lines: Iterator[Import]) -> bool:
    """Import what the first run imports, in its order and with its environment.

    Returns whether that run has ended normally.
    """
    before = list(sys.path)
    for one in lines:
        if not one["name"]:
            sys.path[:] = before
            return True
        if any(key.endswith("ALLOC_CONF") for key in one["environment"]):
            raise UnsafeError("the program sets the allocator before it imports torch")
        sys.path[0] = one["first_path"]
        change_environment(one["environment"])
        # A module that fails here also fails in the program, or is imported there.
        with contextlib.suppress(Exception):
            importlib.import_module(one["name"])
    return False


def _check_forks() -> None:
    """Raise `UnsafeError` if a fork would differ from a new process."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        raise UnsafeError("a library initialises CUDA when it is imported")
    child = os.fork()
    if child == 0:
        is_poisoned = torch is not None and torch_private.is_in_bad_fork(torch)
        os._exit(int(is_poisoned))
    _, status = os.waitpid(child, 0)
    if status:
        raise UnsafeError("a library asks CUDA for its devices when it is imported")
    # Pools that handle forks (OpenBLAS) have ended their threads before this one.
    with contextlib.suppress(OSError):
        threads = [(task / "comm").read_text().strip() for task in _other_threads()]
        if not _KNOW_OF_FORKS.issuperset(threads):
            raise UnsafeError("a library starts a thread when it is imported")


def _other_threads() -> Iterator[Path]:
    tasks = Path("/proc/self/task").iterdir()
    return (task for task in tasks if task.name != str(os.getpid()))


def _serve(answers: int) -> Request | None:
    """Fork for each request, and answer when it has ended. Returns the request in the fork."""
    woken, wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    of_children = signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes)
    running: dict[int, int] = {}
    received = b""
    while True:
        ready, _, _ = select.select([0, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
        for pid in list(running):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                answer = f"{running.pop(pid)} {os.waitstatus_to_exitcode(status)}\n"
                os.write(answers, answer.encode())
        if 0 not in ready:
            continue
        data = os.read(0, 1 << 16)
        if not data:
            # The forks end with this process.
            return None
        *lines, received = (received + data).split(b"\n")
        for line in lines:
            request: Request = json.loads(line)
            pid = os.fork()
            if pid:
                running[pid] = request["id"]
                continue
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, of_children)
            for descriptor in (woken, wakes, answers):
                os.close(descriptor)
            _redirect(request)
            return request


def _redirect(request: Request) -> None:
    """Open a fork's own standard streams."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    files = (
        os.open(os.devnull, os.O_RDONLY),
        os.open(request["stdout"], flags),
        os.open(request["stderr"], flags),
    )
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)


if __name__ == "__main__":
    sys.exit(main())
