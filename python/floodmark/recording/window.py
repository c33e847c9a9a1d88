"""A recording: a window on the events of the one recorder of the process.

Windows may be open inside each other, beside each other and on several threads. Each has its own
start, end, devices, options, trace and, where it is asked for, file. A window can be read while it
is open.

Sees: the process. Talks to: `_core`, `torch_hooks`. Knows nothing of files' contents.

Nothing here raises into the program once it runs: what cannot be recorded is said once, on stderr
and in the trace.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import platform
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ContextDecorator, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from floodmark import _core
from floodmark.recording import gpu_account
from floodmark.recording.fork_warning import watch_forks
from floodmark.recording.frame_layout import choose_way
from floodmark.recording.gpu_account import FakeGpuAccount
from floodmark.recording.torch_hooks import Attachment, attachment_of
from floodmark.recording.window_options import (
    parse_devices,
    parse_max_memory,
    rank_of_process,
    say,
)
from floodmark.reports.trace import Moment, Oom, Report, Trace

if TYPE_CHECKING:
    from floodmark.reports import answer_types

_OWN_FOLDER = str(Path(__file__).parents[1]) + os.sep

#: The windows that are open in this process, in the order in which they were opened.
_open: list[Window] = []
_temporary: tuple[int, Path] | None = None


def _temporary_path() -> Path:
    """A name for events that have none; gone when the program ends."""
    global _temporary
    if _temporary is None or _temporary[0] != os.getpid():
        folder = Path(tempfile.mkdtemp(prefix="floodmark-"))
        _temporary = os.getpid(), folder
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return _temporary[1] / f"{os.getpid()}-{time.monotonic_ns()}.flood"


@functools.lru_cache(maxsize=4)
def _about_process(pid: int) -> dict[str, Any]:
    """What the header of every window says of this process."""
    return {
        "floodmark": _core.__version__,
        "pid": pid,
        "host": socket.gethostname(),
        "python": platform.python_version(),
    }


_ways: dict[str | None, tuple[bool, str]] = {}


def _way_of_stacks() -> tuple[bool, str]:
    """How stacks are read: proven once, since it does not change while the process runs."""
    setting = os.environ.get("FLOODMARK_STACKS")
    if setting not in _ways:
        _ways[setting] = choose_way()
    return _ways[setting]


class Window:
    """An open window, until `close`."""

    def __init__(
        self,
        path: Path | None,
        spill: Path,
        *,
        cpu: bool,
        cuda: int,
        stacks: bool,
        ops: bool,
        max_memory: int,
        replace: _core.MayReplace,
        fake_gpu: FakeGpuAccount | None = None,
        max_events: int | None = None,
    ) -> None:
        self.pid = os.getpid()
        # Inside an estimate with fake tensors, what the program has are those.
        own = [window for window in _open if window.pid == self.pid]
        self._fake_gpu: FakeGpuAccount | None = fake_gpu or (own[-1]._fake_gpu if own else None)
        self._recorded: list[str] = []
        self._not_recorded: list[str] = []
        self._rank = rank_of_process()
        self._phantom: dict[str, Any] | None = None
        self._attachment: Attachment | None = None
        if stacks:
            stacks, remark = _way_of_stacks()
            self._not_recorded.extend([remark] if remark else [])
        if stacks:
            self._recorded.append("stacks")
        is_fake = self._fake_gpu is not None
        if is_fake:
            self._recorded += ["ops", "segments"]
        # Also of a program that is killed: its figures must not be taken for those of a real GPU.
        self._note_simulated_gpu(is_over=False)
        self.core = _core.Window(
            None if path is None else os.fspath(path),
            spill=os.fspath(spill),
            replace=replace,
            cpu=cpu,
            cuda=cuda,
            stacks=stacks,
            ops=ops and not is_fake,
            source=self._block_source(),
            max_memory=max_memory,
            header=self._header(),
            own_folder=_OWN_FOLDER,
            max_events=max_events,
        )
        _open.append(self)
        self._wants_ops = ops and not is_fake
        self._attachment = attachment_of(self.core, is_fake=is_fake)
        self._not_recorded += self._attachment.open(
            self.core, cpu=cpu, cuda=cuda, listener=self._update
        )
        self._attach_ops()
        self._update()

    def _block_source(self) -> _core.BlockSource:
        return _core.BlockSource.TORCH if self._fake_gpu is None else self._fake_gpu.block_source()

    def _attach_ops(self) -> None:
        if self._wants_ops and self._attachment is not None and self._attachment.has_torch:
            self._wants_ops = False
            if _core.attach_ops():
                self._recorded.append("ops")
            else:
                self._not_recorded.append(
                    "operators are not seen: this build of torch does not report"
                )

    def _header(self) -> str:
        rank, world_size, local_rank = self._rank
        header = {
            **_about_process(self.pid),
            "command": list(getattr(sys, "orig_argv", sys.argv)),
            "rank": rank,
            "world_size": world_size,
            "local_rank": local_rank,
            "allocator_conf": os.environ.get("PYTORCH_CUDA_ALLOC_CONF")
            or os.environ.get("PYTORCH_ALLOC_CONF", ""),
            "recorded": self._recorded,
            "not_recorded": self._not_recorded,
        }
        attachment = self._attachment
        if attachment is not None:
            header |= attachment.facts
            header["recorded"] = self._recorded + [
                what for what in attachment.recorded if what not in self._recorded
            ]
            header["not_recorded"] = attachment.not_recorded + self._not_recorded
        if self._fake_gpu is not None:
            header["allocator_backend"] = "native"
            header["devices"] = self._fake_gpu.devices()
        if self._phantom is not None:
            header["phantom"] = self._phantom
        # A command line need not be UTF-8, and Python then has surrogates, which JSON has not.
        text = json.dumps(header, ensure_ascii=False)
        return text.encode(errors="surrogateescape").decode(errors="replace")

    def _update(self) -> None:
        self._attach_ops()
        self.core.update_header(self._header())

    def _note_simulated_gpu(self, *, is_over: bool) -> None:
        simulated = self._fake_gpu or gpu_account.registered()
        if simulated is not None:
            self._phantom = simulated.about(is_over=is_over)

    def refresh(self) -> None:
        """Write into the trace what the simulated GPU says now."""
        self._note_simulated_gpu(is_over=False)
        self._update()

    def set_rank(self, rank: int, world_size: int) -> None:
        """Which rank this process is, where its environment did not say it."""
        if self._rank[0] is None:
            self._rank = rank, world_size, self._rank[2]
            self._update()

    def close(self) -> None:
        """End it. The file, where there is one, is whole when `core.written` returns."""
        if self in _open:
            _open.remove(self)
        with contextlib.suppress(Exception):
            if self._attachment is not None:
                self._attachment.close(self._update)
        with contextlib.suppress(Exception):
            self._note_simulated_gpu(is_over=True)
            self._update()
        self.core.close()


def has_fake_tensors() -> bool:
    """Whether a window on the blocks of fake tensors is open."""
    return any(one._fake_gpu is not None for one in _open if one.pid == os.getpid())


def forget_windows() -> bool:
    """In a fork: the parent's windows are not this process's. Returns whether it had any."""
    had = bool(_open)
    _open.clear()
    return had


class Recorder(ContextDecorator):
    """A recording that is about to run, runs, or has run.

    As a context manager or a decorator it records what is inside. Other recordings may run in the
    same process. When it cannot record (the path is not writable) it says so once and the program
    goes on.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        devices: str | list[str] | tuple[str, ...] | None = None,
        stacks: bool = True,
        ops: bool = False,
        max_memory: int | str = "256MiB",
        follow_fork: bool = False,
        replace: _core.MayReplace = _core.MayReplace.TRACE,
        fake_gpu: FakeGpuAccount | None = None,
        max_events: int | None = None,
    ) -> None:
        cpu, cuda = parse_devices(devices)
        self._given_path = None if path is None else Path(path)
        self._options: dict[str, Any] = {
            "cpu": cpu,
            "cuda": cuda,
            "stacks": stacks,
            "ops": ops,
            "max_memory": parse_max_memory(max_memory),
            "replace": replace,
            "fake_gpu": fake_gpu,
            "max_events": max_events,
        }
        self._follow_fork = follow_fork
        self._lock = threading.RLock()
        self._entered = 0
        self._window: Window | None = None
        self._core: _core.Window | None = None
        self._trace: Trace | None = None
        self._path: Path | None = None
        self._is_written = False
        self._child: Recorder | None = None
        self._failure = ""

    def start(self) -> Recorder:
        """Begin to record. A recording that runs goes on."""
        with self._lock:
            if self._window is None or self._window.pid != os.getpid():
                self._start()
        return self

    def _start(self) -> None:
        self._path = (self._given_path or _temporary_path()).absolute()
        self._trace = None
        self._core = None
        self._window = None
        self._is_written = False
        self._failure = ""
        given = None if self._given_path is None else self._path
        try:
            self._window = Window(given, self._path, **self._options)
        except Exception as error:
            self._failure = str(error)
            say(f"nothing is recorded: {error}")
            return
        self._core = self._window.core
        watch_forks()
        if self._follow_fork:
            _follow_forks()
            _forked_options.append((os.getpid(), self))

    def stop(self) -> None:
        """End the recording and finish the file."""
        with self._lock:
            window, self._window = self._window, None
            if window is None or window.pid != os.getpid():
                return
            window.close()
            # What is in memory is finished when somebody asks for it.
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
        return self._window is not None and self._window.pid == os.getpid()

    @property
    def failure(self) -> str:
        """Why nothing was recorded, or why it stopped early; empty when all is well."""
        with self._lock:
            self._finish()
        return self._failure

    @property
    def path(self) -> Path | None:
        """The trace file; None before the start.

        A recording without a file gets a temporary one when its path is first asked for after its
        end.
        """
        with self._lock:
            is_in_memory = self._given_path is None and self._core is not None
            if is_in_memory and self._window is None and self._path is not None:
                self._finish()
                if not self._path.exists() and self._core is not None:
                    self._core.write_to(os.fspath(self._path))
        return self._path

    def refresh(self) -> None:
        """Write into the trace what the simulated GPU says now."""
        if self._window is not None and self._window.pid == os.getpid():
            self._window.refresh()

    def set_rank(self, rank: int, world_size: int) -> None:
        """Which rank this process is, where its environment did not say it."""
        if self._window is not None and self._window.pid == os.getpid():
            self._window.set_rank(rank, world_size)

    def in_forked_child(self) -> None:
        """The parent records, and this process is a fork of it: record into a file of our own."""
        if self._path is None:
            return
        path = self._path.with_name(f"{self._path.stem}.{os.getpid()}{self._path.suffix}")
        child = Recorder(path)
        child._options = self._options
        child.start()
        # `atexit` may be cleared, and what follows holds no reference.
        self._child = child
        atexit.register(child.stop)
        # Children of `multiprocessing` leave by `os._exit`, past `atexit`, but not past finalizers.
        # They forget those that they find when they begin, so ours is made after that.
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
        # A decorated function that is called twice records twice, into the same recorder.
        return self

    @property
    def trace(self) -> Trace:
        """The recording, read back: what it has until now where it still runs."""
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
        """A step ended, in this recording alone. Returns its number; None where it is not open."""
        return self._window.core.step() if self.is_open and self._window is not None else None

    def begin_phase(self, name: str) -> None:
        """A phase begins on this thread, in this recording alone."""
        if self.is_open and self._window is not None:
            self._window.core.begin_phase(str(name))

    def end_phase(self) -> None:
        """The innermost phase of this recording on this thread ends."""
        if self.is_open and self._window is not None:
            self._window.core.end_phase()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Name what happens inside on this thread, in this recording alone."""
        self.begin_phase(name)
        try:
            yield
        finally:
            self.end_phase()

    def ended_steps(self, first: int, wait_millis: int) -> list[answer_types.StepTotals]:
        """The totals of steps that ended, from `first` on; the last one may take so long."""
        if self._core is None:
            return []
        found: list[answer_types.StepTotals] = json.loads(
            self._core.ended_steps(first, wait_millis)
        )
        return found

    def peaks(self, wait_millis: int) -> list[tuple[str, int]]:
        """The peak of allocated bytes on each device until now."""
        return [] if self._core is None else self._core.peaks(wait_millis)

    def peak(self, device: str | None = None) -> Moment:
        """The moment at which most was allocated."""
        return self.trace.peak(device)

    def oom(self, device: str | None = None, top: int | None = 10) -> Oom:
        """Why an allocation failed, and the moment at which that was."""
        return self.trace.oom(device, top)

    def end(self, device: str | None = None) -> Moment:
        """The end of the recording."""
        return self.trace.end(device)

    def at(self, seconds: float, device: str | None = None) -> Moment:
        """So many seconds after the recording began."""
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
    try:
        recorder.in_forked_child()
    except Exception as error:
        say(f"this child is not recorded: {error}")


# Hooks may outlive the last window; the program must not end with them.
atexit.register(_core.disarm)
