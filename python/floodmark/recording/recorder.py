"""The public functions of a recording: `trace`, `start`, `stop`, `step`, `mark`, `phase`.

Talks to: `window`, which records, and `_core`. Nothing here raises into the running program: each
part that cannot be recorded gets one warning on stderr.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import tempfile
import time
from _thread import RLock
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, contextmanager
from pathlib import Path

# Not from `os`, where a program may replace it.
from posix import getpid
from types import TracebackType
from typing import TYPE_CHECKING, Any

from floodmark import _core
from floodmark.recording import steps
from floodmark.recording.fork_warning import watch_forks
from floodmark.recording.gpu_account import FakeGpuAccount
from floodmark.recording.option_types import RecordingOptions
from floodmark.recording.own_errors import OwnErrors
from floodmark.recording.window import Window, forget_windows
from floodmark.recording.window_options import (
    Devices,
    complete_options,
    parse_bytes,
    parse_devices,
    rank_of_process,
    say,
)
from floodmark.reports.trace import DeviceLike, Moment, Oom, Report, Trace

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from floodmark.reports import answer_types

__all__ = [
    "Recorder",
    "RecordingOptions",
    "TraceOptions",
    "is_recording",
    "mark",
    "parse_bytes",
    "parse_devices",
    "phase",
    "rank_of_process",
    "say",
    "start",
    "step",
    "stop",
    "trace",
]


_temporary: tuple[int, Path] | None = None


def _temporary_path() -> Path:
    """The temporary file of a recording without a path; removed at the end of the program."""
    global _temporary
    if _temporary is None or _temporary[0] != getpid():
        folder = Path(tempfile.mkdtemp(prefix="floodmark-"))
        _temporary = getpid(), folder
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return _temporary[1] / f"{getpid()}-{time.monotonic_ns()}.flood"


class TraceOptions(RecordingOptions, total=False):
    """The options of `trace`."""

    devices: Devices
    force: bool


class Recorder(ContextDecorator):
    """A recording, before, during and after it runs.

    As a context manager or a decorator it records the block or the function. Other recordings may
    run in the same process. If it cannot record (the path is not writable), it prints one warning
    and the program continues.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        devices: Devices = None,
        replace: _core.MayReplace = _core.MayReplace.TRACE,
        fake_gpu: FakeGpuAccount | None = None,
        next_path: Callable[[], Path | None] | None = None,
        **options: Unpack[RecordingOptions],
    ) -> None:
        wanted = complete_options(options)
        cpu, cuda = parse_devices(devices)
        self._given_path = None if path is None else Path(path)
        #: Returns the next free path if the default path is taken; None if the user chose the path.
        self._next_path = next_path
        self._open_window = functools.partial(
            Window,
            cpu=cpu,
            cuda=cuda,
            options=wanted,
            replace=replace,
            fake_gpu=fake_gpu,
        )
        self._follow_fork = wanted["follow_fork"]
        # `threading` would change how Python 3.13 ends the program.
        self._lock = RLock()
        self._entered = 0
        self._window: Window | None = None
        self._core: _core.Window | None = None
        self._trace: Trace | None = None
        self._path: Path | None = None
        self._is_written = False
        self._child: Recorder | None = None
        self._failure = ""

    def start(self, *, needed_by: str = "nothing is recorded") -> Recorder:
        """Begin to record. Does nothing if the recording runs already.

        `needed_by` is the consequence that the warning states if the recording fails.
        """
        with self._lock:
            if self._window is None or self._window.pid != getpid():
                self._start(needed_by)
        return self

    def _start(self, needed_by: str) -> None:
        self._trace = None
        self._core = None
        self._window = None
        self._is_written = False
        self._failure = ""
        with OwnErrors() as caught:
            self._open()
        if caught.error is not None or self._window is None:
            self._failure = str(caught.error)
            say(f"{needed_by}: {caught.error}")
            return
        self._core = self._window.core
        watch_forks()
        if self._follow_fork:
            _follow_forks()
            _forked_options.append((getpid(), self))

    def _open(self) -> None:
        while self._window is None:
            self._path = (self._given_path or _temporary_path()).absolute()
            try:
                given = None if self._given_path is None else self._path
                self._window = self._open_window(given, self._path)
            except FileExistsError:
                # Another process may have created the file since the path was chosen.
                following = None if self._next_path is None else self._next_path()
                if following in (None, self._given_path):
                    raise
                self._given_path = following

    def stop(self) -> None:
        """End the recording and finish the file."""
        with self._lock:
            window, self._window = self._window, None
            if window is None or window.pid != getpid():
                return
            window.close()
            # A recording in memory is finished when its path is first requested.
            if self._given_path is not None:
                self._finish()

    def _finish(self) -> None:
        if self._core is not None and self._window is None and not self._is_written:
            self._is_written = True
            self._failure = self._core.written()[2]
            if self._failure:
                say(f"recording stopped early: {self._failure}")

    @property
    def is_open(self) -> bool:
        """Whether it records now."""
        return self._window is not None and self._window.pid == getpid()

    @property
    def failure(self) -> str:
        """Why nothing was recorded, or why it stopped early; empty after no failure."""
        with self._lock:
            self._finish()
        return self._failure

    @property
    def path(self) -> Path | None:
        """The trace file; None before the start.

        A recording without a file gets a temporary one when this is first read after its end.
        """
        with self._lock:
            is_in_memory = self._given_path is None and self._core is not None
            if is_in_memory and self._window is None and self._path is not None:
                self._finish()
                if not self._path.exists() and self._core is not None:
                    self._core.write_to(os.fspath(self._path))
        return self._path

    def refresh(self) -> None:
        """Write the current state of the simulated GPU into the trace."""
        if self._window is not None and self._window.pid == getpid():
            self._window.refresh()

    def set_rank(self, rank: int, world_size: int) -> None:
        """Set the rank of this process if its environment has none."""
        if self._window is not None and self._window.pid == getpid():
            self._window.set_rank(rank, world_size)

    def in_forked_child(self) -> None:
        """In a fork of a recorded process: record into a file of its own."""
        if self._path is None:
            return
        path = self._path.with_name(f"{self._path.stem}.{getpid()}{self._path.suffix}")
        child = Recorder(path)
        child._open_window = self._open_window
        child.start()
        # The parent's handlers of `atexit` may be gone, and nothing else refers to this recorder.
        self._child = child
        atexit.register(child.stop)
        # Children of `multiprocessing` leave by `os._exit`, which skips `atexit` but not
        # finalizers. A child removes the finalizers of its parent when it begins, so ours is
        # registered after that.
        from multiprocessing import util

        util.register_after_fork(
            child, lambda child: util.Finalize(None, child.stop, exitpriority=-100)
        )

    def __enter__(self) -> Recorder:
        with self._lock:
            self._entered += 1
            return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            self._entered -= 1
            if self._entered == 0:
                self.stop()

    def _recreate_cm(self) -> Recorder:
        # Each call of a decorated function records with the same recorder.
        return self

    @property
    def trace(self) -> Trace:
        """The recording as a trace; while it runs, the events until now."""
        with self._lock:
            if self._core is None:
                raise _core.FloodmarkError(
                    f"nothing was recorded: {self._failure or 'not started'}"
                )
            if self.is_open:
                if self._window is not None and self._window._phantom is not None:
                    self._window.refresh()
                return Trace(self._core.trace())
            self._finish()
            if self._trace is None:
                self._trace = (
                    Trace(self._core.trace())
                    if self._given_path is None or self._path is None
                    else Trace.open(self._path)
                )
            return self._trace

    def step(self) -> int | None:
        """End a step of this recording only. Returns its number; None if the recording is
        closed."""
        return self._window.core.step() if self.is_open and self._window is not None else None

    def begin_phase(self, name: str) -> None:
        """Begin a phase on this thread, in this recording only."""
        if self.is_open and self._window is not None:
            self._window.core.begin_phase(str(name))

    def end_phase(self) -> None:
        """End the innermost phase of this recording on this thread."""
        if self.is_open and self._window is not None:
            self._window.core.end_phase()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Name the phase of a block on this thread, in this recording only."""
        self.begin_phase(name)
        try:
            yield
        finally:
            self.end_phase()

    def ended_steps(self, first: int, wait_millis: int) -> list[answer_types.StepTotals]:
        """The totals of ended steps from `first` on; waits for the last one at most this long."""
        if self._core is None:
            return []
        found: list[answer_types.StepTotals] = json.loads(
            self._core.ended_steps(first, wait_millis)
        )
        return found

    def peaks(self, wait_millis: int) -> list[tuple[str, int]]:
        """The peak of allocated bytes on each device so far."""
        return [] if self._core is None else self._core.peaks(wait_millis)

    def peak(self, device: DeviceLike | None = None) -> Moment:
        """The time of the peak."""
        return self.trace.peak(device)

    def oom(self, device: DeviceLike | None = None, top: int | None = 10) -> Oom:
        """Why an allocation failed, and the time of the failure."""
        return self.trace.oom(device, top)

    def end(self, device: DeviceLike | None = None) -> Moment:
        """The end of the recording."""
        return self.trace.end(device)

    def at(self, seconds: float, device: DeviceLike | None = None) -> Moment:
        """This many seconds after the recording began."""
        return self.trace.at(seconds, device)

    def report(self, **question: Any) -> Report[answer_types.Row]:
        """See `Trace.report`."""
        return self.trace.report(**question)

    def export(self, path: str | os.PathLike[str], to: str | None = None, **options: Any) -> None:
        """See `Trace.export`."""
        self.trace.export(path, to, **options)

    def __str__(self) -> str:
        return str(self.trace) if self._core is not None else "a recording that has not begun"


_forked_options: list[tuple[int, Recorder]] = []
_is_following = False


def _follow_forks() -> None:
    global _is_following
    if not _is_following:
        os.register_at_fork(after_in_child=_in_child)
        _is_following = True


def _in_child() -> None:
    if not forget_windows() or not _forked_options:
        return
    _, recorder = _forked_options[-1]
    with OwnErrors() as caught:
        recorder.in_forked_child()
    if caught.error is not None:
        say(f"this child is not recorded: {caught.error}")


def trace(
    path: str | os.PathLike[str] | None = None,
    *,
    devices: Devices = None,
    force: bool = False,
    **options: Unpack[RecordingOptions],
) -> Recorder:
    """Record what happens inside a `with` block, or in a decorated function.

    `path` is the trace; without one the recording lasts only as long as the program. `devices` are
    names such as `"cpu"` or `"cuda:0"`, or objects of `torch.device`; all by default. The further
    `options` are those of `RecordingOptions`, such as `ops=True` or `max_memory="64MiB"`.

    A finished trace of the same name is replaced. Any other file, a symbolic link and an unfinished
    recording are replaced only with `force`. A live recording, a folder and a device are never
    replaced.

    Recordings may be nested, overlap and run on several threads. Each has all events of its devices
    from its start to its end, independently of the others.
    """
    return Recorder(
        path,
        devices=devices,
        replace=_core.MayReplace.ANY_FILE if force else _core.MayReplace.TRACE,
        **options,
    )


_started: list[Recorder] = []


def start(path: str | os.PathLike[str] | None = None, **options: Unpack[TraceOptions]) -> Recorder:
    """Begin to record; `stop` ends it. Takes the arguments of `trace`."""
    recorder = trace(path, **options).start()
    _started.append(recorder)
    return recorder


def stop() -> Recorder | None:
    """End the recording of the last `start`, and return it."""
    if not _started:
        return None
    recorder = _started.pop()
    recorder.stop()
    return recorder


def is_recording() -> bool:
    """Whether a recording is open in this process."""
    return _core.is_recording()


def step() -> None:
    """End a training step. Without this call, every optimizer step ends one."""
    _core.step()
    steps.user_stepped()


def mark(name: str) -> None:
    """Write a named mark at this time into the trace."""
    _core.mark(str(name))


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Name the phase of a block on this thread."""
    if not str(name):
        raise ValueError("a phase needs a name")
    _core.begin_phase(str(name))
    try:
        yield
    finally:
        _core.end_phase()
