"""One recording from start to stop.

Opens the probe, tells it of torch when that is imported and of CUDA when that is initialised, and
closes it. Sees: the process. Talks to: `_core`, `_names`, `_optimizers`. Knows nothing of files'
contents.

Nothing here raises into the program once it runs: what cannot be recorded is said once, on stderr
and in the trace.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import platform
import re
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ContextDecorator, contextmanager
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Literal, Protocol

from floodmark import _base, _compat, _core, _names, _played, _steps
from floodmark._fork_warning import watch_forks
from floodmark._gradients import GradientLabels
from floodmark._import_watch import ImportWatch
from floodmark._optimizers import OptimizerHooks
from floodmark._proof import choose_way
from floodmark._trace import Moment, Oom, Report, Trace

_OWN_FOLDER = str(Path(__file__).parent) + os.sep
#: What may be replaced at the path of a trace.
Replace = Literal["nothing", "trace", "any file"]
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def say(text: str) -> None:
    """Tell the user, on stderr."""
    # A closed stderr is no reason to disturb the program.
    with contextlib.suppress(Exception):
        print(f"floodmark: {text}", file=sys.stderr)


def parse_bytes(value: int | str) -> int:
    """`268435456`, `"256MiB"` or `"1 GB"` as a number of bytes."""
    if isinstance(value, int):
        return value
    found = re.fullmatch(r"\s*([0-9.]+)\s*([KMGT]?)(?:i?B)?\s*", value, re.IGNORECASE)
    if found is None:
        raise ValueError(f"not a number of bytes: {value!r}; write it as `256MiB`")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def parse_devices(devices: str | list[str] | tuple[str, ...] | None) -> tuple[bool, int]:
    """Whether to record the CPU, and a bit for each CUDA device."""
    if devices is None or devices == "all":
        return True, (1 << 64) - 1
    names = devices.split(",") if isinstance(devices, str) else list(devices)
    cpu, cuda = False, 0
    for name in (str(name).strip() for name in names):
        found = re.fullmatch(r"cuda(?::([0-9]{1,2}))?", name)
        if name == "cpu":
            cpu = True
        elif found is None:
            raise ValueError(f"no such device: {name!r}; write `cpu`, `cuda` or `cuda:0`")
        else:
            cuda |= (1 << 64) - 1 if found[1] is None else 1 << int(found[1])
    return cpu, cuda


def rank_of_process() -> tuple[int | None, int | None, int | None]:
    """Rank, world size and local rank, as a launcher sets them."""

    def number(name: str) -> int | None:
        value = os.environ.get(name, "")
        return int(value) if value.isdigit() else None

    return number("RANK"), number("WORLD_SIZE"), number("LOCAL_RANK")


class Account(Protocol):
    """What stands for a GPU that is not there, and tells of blocks instead of torch."""

    def about(self, *, is_over: bool) -> dict[str, Any]:
        """What a trace says of it."""

    def devices(self) -> list[dict[str, Any]]:
        """The devices, as a header has them."""

    def told(self) -> str:
        """`told`, or `without device` where torch does not see the devices itself."""


class _Session:
    """What is undone when recording stops."""

    def __init__(
        self,
        path: Path,
        cpu: bool,
        cuda: int,
        stacks: bool,
        ops: bool,
        max_memory: int,
        replace: Replace,
        told_by: Account | None = None,
    ) -> None:
        self.path = path
        self.pid = os.getpid()
        self.failure = ""
        self._cpu = cpu
        self._told_by = told_by
        self._torch_was_there = "torch" in sys.modules
        self._watch: ImportWatch | None = None
        self._optimizers: OptimizerHooks | None = None
        self._gradients: GradientLabels | None = None
        not_recorded = []
        if stacks:
            stacks, remark = choose_way()
            not_recorded.extend([remark] if remark else [])
        self._ops = ops and told_by is None
        rank, world_size, local_rank = rank_of_process()
        self._header: dict[str, Any] = {
            "floodmark": _core.__version__,
            "pid": self.pid,
            "command": list(getattr(sys, "orig_argv", sys.argv)),
            "host": socket.gethostname(),
            "rank": rank,
            "world_size": world_size,
            "local_rank": local_rank,
            "python": platform.python_version(),
            "allocator_conf": os.environ.get("PYTORCH_CUDA_ALLOC_CONF")
            or os.environ.get("PYTORCH_ALLOC_CONF", ""),
            "recorded": ["stacks"] if stacks else [],
            "not_recorded": not_recorded,
        }
        if told_by is not None:
            self._header["recorded"] += ["ops", "segments"]
            self._header["allocator_backend"] = "native"
            self._header["devices"] = told_by.devices()
        # Also of a program that is killed: nobody may take its figures for a real card's.
        self._tell_of_phantom(is_over=False)
        _core.start(
            os.fspath(path),
            replace=replace,
            cpu=cpu,
            cuda=cuda,
            stacks=stacks,
            ops=self._ops,
            told="" if told_by is None else told_by.told(),
            max_memory=max_memory,
            header=self._header_text(),
            own_folder=_OWN_FOLDER,
        )
        self._watch = ImportWatch("torch", self._attach)

    def _header_text(self) -> str:
        # A command line need not be UTF-8, and Python then has surrogates, which JSON has not.
        text = json.dumps(self._header, ensure_ascii=False)
        return text.encode(errors="surrogateescape").decode(errors="replace")

    def _update_header(self) -> None:
        _core.update_header(self._header_text())

    def refresh(self) -> None:
        """Write into the trace what the simulated GPU says now."""
        self._tell_of_phantom(is_over=False)
        self._update_header()

    def set_rank(self, rank: int, world_size: int) -> None:
        """Which rank this process is, where its environment did not say it."""
        if self._header["rank"] is None:
            self._header["rank"] = rank
            self._header["world_size"] = world_size
            self._update_header()

    def _tell_of_phantom(self, *, is_over: bool) -> None:
        played = self._told_by or _played.played()
        if played is not None:
            self._header["phantom"] = played.about(is_over=is_over)

    def _not_recorded(self, what: str) -> None:
        self._header["not_recorded"].append(what)

    def _attach(self, torch: ModuleType) -> None:
        try:
            self._attach_torch(torch)
        except Exception as error:
            self._not_recorded(f"torch could not be attached: {error!r}")
            say(f"torch could not be attached, nothing is recorded: {error!r}")
        with contextlib.suppress(Exception):
            self._update_header()

    def _attach_torch(self, torch: ModuleType) -> None:
        self._header["torch"] = str(torch.__version__)
        self._header["cuda"] = str(torch.version.cuda or "")
        is_proven = _base.prove_tensors(torch)
        seen = _core.attach_torch(str(Path(str(torch.__file__)).parent) + os.sep)
        if seen is None:
            return
        is_told = self._told_by is not None
        if not is_told and "cuda" not in seen:
            self._not_recorded("CUDA allocations are not seen: this build of torch does not report")
        if self._cpu and not is_told and "cpu" not in seen:
            self._not_recorded("CPU allocations are not seen: this build of torch does not report")
        # Hooks first: what is freed during the search must not count as live.
        if self._cpu and self._torch_was_there and not is_told:
            self._header["not_recorded"] += _base.add_host_blocks()
        if "backward" not in seen:
            self._not_recorded("backward allocations are not tied to their forward lines")
        if self._ops and "ops" not in seen:
            self._not_recorded("operators are not seen: this build of torch does not report")
        if not is_proven or "saved" not in seen:
            self._not_recorded("tensors that autograd saves are not seen in this build of torch")
        elif "unpacked" not in seen:
            self._not_recorded("the last use of saved tensors is not seen in this build of torch")
        self._header["recorded"] += [name for name in ("ops", "saved", "unpacked") if name in seen]
        self._gradients = GradientLabels(torch)
        self._optimizers = OptimizerHooks(torch, self._gradients)
        if self._told_by is None:
            _compat.when_cuda_is_ready(torch, lambda: self._attach_cuda(torch))

    def _attach_cuda(self, torch: ModuleType) -> None:
        """CUDA is ready. Called by torch: nothing may come out of it."""
        if not _core.is_recording() or self.pid != os.getpid():
            return
        with contextlib.suppress(Exception):
            self._describe_devices(torch)
        try:
            backend = str(torch.cuda.memory.get_allocator_backend())
            self._header["allocator_backend"] = backend
            if backend != "native":
                self._not_recorded(
                    f"the `{backend}` allocator does not report requested sizes and segments, "
                    "and may not report blocks"
                )
            elif _core.attach_tracker(_compat.has_pool_ids(torch)):
                self._header["recorded"].append("segments")
                _core.base(_base.device_blocks(torch))
                self._header["has_base"] = True
            else:
                self._not_recorded("requested sizes and segments are not seen: no trace tracker")
        except Exception as error:
            self._not_recorded(f"CUDA could not be attached fully: {error!r}")
        with contextlib.suppress(Exception):
            self._update_header()

    def _describe_devices(self, torch: ModuleType) -> None:
        self._header["driver"] = _compat.driver_version()
        devices = []
        for index in range(torch.cuda.device_count()):
            about = torch.cuda.get_device_properties(index)
            devices.append(
                {
                    "device": f"cuda:{index}",
                    "name": str(about.name),
                    "total_bytes": int(about.total_memory),
                    "compute_capability": f"{about.major}.{about.minor}",
                    "multiprocessors": int(about.multi_processor_count),
                }
            )
        self._header["devices"] = devices

    def stop(self) -> None:
        """Undo everything; what failed is in `failure`."""
        with contextlib.suppress(Exception):
            if self._watch is not None:
                self._watch.stop()
            if self._optimizers is not None:
                self._optimizers.remove()
            if self._gradients is not None:
                self._gradients.remove()
        with contextlib.suppress(Exception):
            self._tell_of_phantom(is_over=True)
            self._update_header()
        written = _core.stop()
        with contextlib.suppress(Exception):
            _names.forget_all()
        if written is not None:
            self.failure = written[2]
            if self.failure:
                say(f"recording stopped early: {self.failure}")


_session: _Session | None = None
_temporary: Path | None = None


def _temporary_path() -> Path:
    """A place for traces that nobody named; gone when the program ends."""
    global _temporary
    if _temporary is None:
        _temporary = Path(tempfile.mkdtemp(prefix="floodmark-"))
        atexit.register(shutil.rmtree, _temporary, ignore_errors=True)
    return _temporary / f"{os.getpid()}-{time.monotonic_ns()}.flood"


class Recorder(ContextDecorator):
    """A recording that is about to run, runs, or has run.

    As a context manager or a decorator it records what is inside. When it cannot record (the path
    is not writable, another recording runs) it says so once and the program goes on.
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
        replace: Replace = "trace",
        told_by: Account | None = None,
    ) -> None:
        cpu, cuda = parse_devices(devices)
        self._given_path = None if path is None else Path(path)
        self._options: dict[str, Any] = {
            "cpu": cpu,
            "cuda": cuda,
            "stacks": stacks,
            "ops": ops,
            "max_memory": parse_bytes(max_memory),
            "replace": replace,
            "told_by": told_by,
        }
        self._follow_fork = follow_fork
        self._session: _Session | None = None
        self._trace: Trace | None = None
        self._has_begun = False
        self._child: Recorder | None = None
        self.path: Path | None = None
        self.failure = ""

    def start(self) -> Recorder:
        """Begin to record."""
        global _session
        self.path = (self._given_path or _temporary_path()).absolute()
        self._trace = None
        self._has_begun = False
        self.failure = ""
        try:
            self._session = _Session(self.path, **self._options)
        except Exception as error:
            self.failure = str(error)
            say(f"nothing is recorded: {error}")
            return self
        self._has_begun = True
        watch_forks()
        _session = self._session
        if self._follow_fork:
            _follow_forks()
            _forked_options.append((os.getpid(), self))
        return self

    def stop(self) -> None:
        """End the recording and finish the file."""
        global _session
        if self._session is None:
            return
        if self._session.pid == os.getpid():
            self._session.stop()
            self.failure = self._session.failure
        if _session is self._session:
            _session = None
        self._session = None

    def refresh(self) -> None:
        """Write into the trace what the simulated GPU says now."""
        if self._session is not None and self._session.pid == os.getpid():
            self._session.refresh()

    def set_rank(self, rank: int, world_size: int) -> None:
        """Which rank this process is, where its environment did not say it."""
        if self._session is not None and self._session.pid == os.getpid():
            self._session.set_rank(rank, world_size)

    def in_forked_child(self) -> None:
        """The parent records, and this process is a fork of it: record into a file of our own."""
        if self.path is None:
            return
        path = self.path.with_name(f"{self.path.stem}.{os.getpid()}{self.path.suffix}")
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
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _recreate_cm(self) -> Recorder:
        # A decorated function that is called twice records twice, into the same recorder.
        return self

    @property
    def trace(self) -> Trace:
        """The recording, read back. Stops it if it still runs."""
        self.stop()
        if self._trace is None:
            # What lies there may be another recording.
            if self.path is None or not self._has_begun:
                raise _core.FloodmarkError(f"nothing was recorded: {self.failure or 'not started'}")
            self._trace = Trace.open(self.path)
        return self._trace

    def peak(self, device: str | None = None) -> Moment:
        """The moment at which most was allocated."""
        return self.trace.peak(device)

    def oom(self, device: str | None = None, top: int | None = 10) -> Oom:
        """Why a request could not be met, and the moment at which that was."""
        return self.trace.oom(device, top)

    def end(self, device: str | None = None) -> Moment:
        """The end of the recording."""
        return self.trace.end(device)

    def at(self, seconds: float, device: str | None = None) -> Moment:
        """So many seconds after the recording began."""
        return self.trace.at(seconds, device)

    def report(self, **question: Any) -> Report:
        """See `Trace.report`."""
        return self.trace.report(**question)

    def export(self, path: str | os.PathLike[str], to: str | None = None, **options: Any) -> None:
        """See `Trace.export`."""
        self.trace.export(path, to, **options)

    def __str__(self) -> str:
        return str(self.trace) if self._session is None and self.path else "a recording that runs"


_forked_options: list[tuple[int, Recorder]] = []
_is_following = False


def _follow_forks() -> None:
    global _is_following
    if not _is_following:
        os.register_at_fork(after_in_child=_in_child)
        _is_following = True


def _in_child() -> None:
    global _session
    if _session is None or not _forked_options:
        return
    _session = None
    _, recorder = _forked_options[-1]
    try:
        recorder.in_forked_child()
    except Exception as error:
        say(f"this child is not recorded: {error}")


def trace(
    path: str | os.PathLike[str] | None = None,
    *,
    devices: str | list[str] | tuple[str, ...] | None = None,
    stacks: bool = True,
    ops: bool = False,
    max_memory: int | str = "256MiB",
    follow_fork: bool = False,
    force: bool = False,
) -> Recorder:
    """Record what happens inside a `with` block, or in a decorated function.

    `path` is the trace; without one it is kept only as long as the program runs. `devices` are
    names such as `"cpu"` or `"cuda:0"`; all by default. `stacks` and `ops` say whether Python
    stacks and operator names are recorded. `max_memory` limits the recorder's own memory. With
    `follow_fork` forked children are recorded too, each into its own file.

    A finished trace of the same name is replaced. Any other file, a symbolic link and a recording
    that was not finished are replaced only with `force`. A recording that runs, a folder and a
    device are never replaced.
    """
    return Recorder(
        path,
        devices=devices,
        stacks=stacks,
        ops=ops,
        max_memory=max_memory,
        follow_fork=follow_fork,
        replace="any file" if force else "trace",
    )


_started: Recorder | None = None


def start(path: str | os.PathLike[str] | None = None, **options: Any) -> Recorder:
    """Begin to record; `stop` ends it. Takes what `trace` takes."""
    global _started
    _started = trace(path, **options).start()
    return _started


def stop() -> Recorder | None:
    """End the recording that `start` began, and return it."""
    global _started
    recorder, _started = _started, None
    if recorder is not None:
        recorder.stop()
    return recorder


def is_recording() -> bool:
    """Whether a recording runs in this process."""
    return _core.is_recording()


def step() -> None:
    """Say that a training step ended. Without it, every optimizer step ends one."""
    _core.step()
    _steps.user_stepped()


def mark(name: str) -> None:
    """Mark this moment in the trace."""
    _core.mark(str(name))


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Name what happens inside on this thread."""
    if not str(name):
        raise ValueError("a phase needs a name")
    _core.begin_phase(str(name))
    try:
        yield
    finally:
        _core.end_phase()
