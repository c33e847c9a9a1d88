"""`floodmark run`: a program and its recorder.

`launch` runs the program with plain Python wherever it can, `in_process_run` elsewhere. Sees: the
request of the command line. Talks to: `recorder`, `output_path`, `launch`, `in_process_run`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path

# Not from `os`, where a program may replace it.
from posix import getpid
from types import ModuleType
from typing import TYPE_CHECKING

from floodmark import _core
from floodmark.recording.gpu_account import FakeGpuAccount
from floodmark.recording.in_process_run import run_in_place
from floodmark.recording.launch import launch, take_order
from floodmark.recording.output_path import next_default_path, output_path
from floodmark.recording.recorder import Recorder, say
from floodmark.recording.window_options import requested_options, say_together

if TYPE_CHECKING:
    from floodmark.reports.answer_types import AppliedChange
    from floodmark.reports.trace import Trace


def run(request: _core.RunRequest, prepare: Callable[[], object]) -> int:
    """Run the program of `request` under a recorder. Returns only if the program could not start.

    `prepare` is called before the program where it runs in this process.
    """
    launch(request)
    if not start(request):
        return 1
    prepare()
    run_in_place(request)
    return 0


def begin() -> _core.RunRequest | None:
    """Start the recorder in a process that `launch` made. Called by the start-up file."""
    words = take_order()
    if words is None:
        return None
    request = _core.main(["floodmark", *words], sys.executable)
    if not isinstance(request, _core.RunRequest) or not start(request, sys.modules["__main__"]):
        # Without a recording the program must not start.
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(request if isinstance(request, int) else 1)
    return request


def start(request: _core.RunRequest, main: ModuleType | None = None) -> bool:
    """Start the recorder of `request` in this process; returns whether that succeeded.

    `main` is the module in which Python will run the program, if it exists already.
    """
    program = Program.from_request(request)
    recorder = None if program is None else program.start()
    if recorder is None:
        return False
    # Registered first, so it runs last: the program's exit handlers are still recorded. Ctrl-C does
    # not interrupt it.
    finish = functools.partial(_finish, recorder, request, has_begun(request, main), getpid())
    atexit.register(_core.call_on_own_thread, finish)
    return True


class Program:
    """A program that is ready to run, and its recorder."""

    def __init__(self, request: _core.RunRequest, path: Path) -> None:
        self.request = request
        self.path = path.absolute()

    @classmethod
    def from_request(
        cls, request: _core.RunRequest, *, is_only_process: bool = False
    ) -> Program | None:
        """The program of a request; None after an error, which was printed.

        With `is_only_process` the other ranks of the world are simulated.
        """
        path = output_path(request, is_only_process=is_only_process)
        if path is None:
            return None
        return cls(request, path)

    def start(self, fake_gpu: FakeGpuAccount | None = None) -> Recorder | None:
        """Begin to record; None if that failed."""
        request = self.request
        recorder = Recorder(
            self.path,
            devices=request.devices,
            replace=_core.MayReplace.ANY_FILE if request.force else _core.MayReplace.NOTHING,
            fake_gpu=fake_gpu,
            next_path=functools.partial(next_default_path, request),
            **requested_options(request),
        )
        recorder.start(needed_by="the program was not started")
        return None if recorder.failure else recorder

    def run(self) -> None:
        """Run the program; its exceptions pass."""
        run_in_place(self.request)


def short_path(path: Path) -> str:
    """The path relative to the current folder, if that still exists."""
    try:
        return os.path.relpath(path)
    except OSError:
        return str(path)


def next_question(name: str, *, ran_out: bool) -> str:
    """The command to run next on a recording that was just written."""
    if ran_out:
        return f"`{name}`: see why memory ran out with `floodmark oom {name}`"
    return f"`{name}`: see what filled it with `floodmark report {name}`"


def has_begun(request: _core.RunRequest, main: ModuleType | None) -> Callable[[], bool]:
    """A function that returns whether Python has started the program: it has then changed
    `main`."""
    reads_stdin = request.script is not None and os.fspath(request.script) == "-"
    if main is None or reads_stdin:
        return lambda: True
    names = main.__dict__
    before = dict(names)

    def has_changed() -> bool:
        return names.keys() != before.keys() or any(
            names[name] is not before[name] for name in names
        )

    return has_changed


def end_of(trace: Trace, name: str) -> str:
    """The next command for a recording that was just written, or why it has no events."""
    found = trace.summary()
    if not found["events"]:
        why = "allocated no tensor" if "torch" in sys.modules else "did not import torch"
        return f"`{name}` has no events: the program {why} while it was recorded"
    return next_question(name, ran_out=bool(found["failed_requests"]))


def about_change(change: AppliedChange) -> str:
    """What a requested change was applied to, or why it was not."""
    if change["target"]:
        return f"With `{change['change']}`: {change['target']}"
    return f"Without `{change['change']}`: {change['reason']}"


def _finish(
    recorder: Recorder, request: _core.RunRequest, begun: Callable[[], bool], pid: int
) -> None:
    if getpid() != pid:
        return
    recorder.stop()
    if request.quiet or recorder.path is None:
        return
    try:
        trace = recorder.trace
        name = short_path(recorder.path)
        lines = [line.strip().removeprefix("floodmark: ") for line in str(trace).splitlines()]
        if begun():
            lines += map(about_change, trace.header.get("changes", []))
            lines.append(end_of(trace, name))
        elif trace.summary()["events"]:
            lines.append(f"the program could not be started; `{name}` has what its imports did")
        else:
            lines = [f"the program could not be started; `{name}` has no events"]
        rank = trace.header["rank"]
        say_together(lines if rank is None else [f"rank {rank}: {line}" for line in lines])
    except Exception as error:
        say(f"`{recorder.path}` was written, but could not be read back: {error}")
