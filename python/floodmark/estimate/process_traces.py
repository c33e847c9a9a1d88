"""The traces of a program's processes: combines them into one estimate, and moves them to `-o`.

Every process that allocated on a GPU keeps its trace. One trace goes where `output_path` says.
Several go into the folder that was named; where a file was named, into a folder of that name
without `.flood`. Sees: the folder in which child processes wrote theirs. Talks to: `_core`,
`output_path`. The lock of a recording shows whether it still runs: a PID may belong to another PID
namespace.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from floodmark import _core
from floodmark.estimate import child_processes
from floodmark.recording.output_path import remove_traces
from floodmark.reports.trace import Estimate, Trace

#: How long to wait for child processes that outlive the program.
_SECONDS_AFTER = 10.0
_SECONDS_BETWEEN = 0.05


@dataclass(frozen=True)
class _Recorded:
    path: Path
    trace: Trace

    @property
    def pid(self) -> int:
        return int(self.trace.header["pid"])

    @property
    def rank(self) -> int | None:
        rank: int | None = self.trace.header["rank"]
        return rank

    def uses_gpu(self) -> bool:
        found = self.trace.estimate()
        return bool(found.rows) or found.fits is False


class Traces:
    """The trace of the process that was started, and those of its children."""

    def __init__(self, main: _Recorded, folder: Path | None) -> None:
        self._main = main
        self._folder = folder
        self._notes: list[str] = []
        self._misses_process = False
        self._running: set[Path] = set()
        found = [] if folder is None else [self._child(path) for path in self._written(folder)]
        self._children = [child for child in found if child is not None and child.uses_gpu()]
        self._children.sort(key=lambda child: (child.rank is None, child.rank, child.pid))
        if any(child.path in self._running for child in self._children):
            self._misses_process = True
        if folder is not None:
            refusals = child_processes.refusals(folder)
            self._notes += refusals
            self._misses_process |= bool(refusals)

    @classmethod
    def open(cls, path: Path, folder: Path | None, pid: int) -> Traces | None:
        """Read the traces of the process `pid`; None if it did not begin to record."""
        main = _opened(path)
        return cls(main, folder) if main is not None and main.pid == pid else None

    def _child(self, path: Path) -> _Recorded | None:
        """The trace of a child process; None, and a note, if it cannot be read."""
        try:
            return _Recorded(path, Trace.open(path))
        except (OSError, _core.FloodmarkError) as error:
            why = str(error).splitlines()[0] if str(error) else repr(error)
            self._notes.append(f"Process {_pid_in(path)} is left out: {why}")
            self._misses_process = True
            return None

    def _written(self, folder: Path) -> list[Path]:
        """All traces, once no process writes any more or the wait is over."""
        until = time.monotonic() + _SECONDS_AFTER
        while True:
            paths = sorted(folder.glob("*.flood"))
            self._running = {path for path in paths if _is_being_recorded(path)}
            if not self._running or time.monotonic() > until:
                break
            time.sleep(_SECONDS_BETWEEN)
        for pid in sorted(_pid_in(path) for path in self._running):
            self._notes.append(f"Process {pid} still runs: what it will need is unknown")
        return paths

    def estimate(
        self, error: str, cost: str | None = None, *, rerun: Estimate | None = None
    ) -> Estimate:
        """The estimate of all processes; `error` is that of the first one.

        `cost` is the JSON of the cost that the first process measured after its recording. `rerun`
        is the estimate of the same program with more memory.
        """
        ended = self._main.trace.header["phantom"]["ended"]
        notes = list(self._notes)
        if error and ended == "done":
            notes.append(f"After its end the program was left with {error}")
        return self._main.trace.estimate_with(
            [child.trace for child in self._children],
            ended="failed" if error else "done",
            error=error,
            misses_process=self._misses_process,
            notes=notes,
            cost=cost,
            rerun=rerun,
        )

    def remove(self) -> None:
        """Remove all of them."""
        _remove(self._main.path)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def move_to_output(self, request: _core.RunRequest) -> Path:
        """Move the traces that count to their output, and remove the others; returns the output."""
        main = self._main.path
        kept = self._children
        if self._main.uses_gpu() or not kept:
            kept = [self._main, *kept]
        output = output_of(main, request)
        if len(kept) > 1 and output == main:
            output = _free_folder(main.with_suffix(""), may_replace=request.force)
            output.mkdir()
        names = {kept[0].path: main.name} if len(kept) == 1 else _names(kept, main)
        folder = main.parent if len(kept) == 1 else output
        if self._main not in kept:
            _remove(main)
        for earlier in folder.glob("process-*.flood") if request.force else ():
            _remove(earlier)
        for one in kept:
            if one.path not in self._running:
                _move(one.path, _free(folder / names[one.path], one))
        if self._folder is not None and not self._running:
            shutil.rmtree(self._folder, ignore_errors=True)
        return output


def output_of(path: Path, request: _core.RunRequest) -> Path:
    """The requested output: the trace itself, or its folder."""
    if request.output is not None:
        return path if Path(request.output).suffix == path.suffix else path.parent
    return path.parent if path.name.startswith("rank-") else path


def _names(kept: list[_Recorded], main: Path) -> dict[Path, str]:
    """File names by rank if every trace has its own rank, otherwise by process."""
    ranks = [one.rank for one in kept]
    if None not in ranks and len(set(ranks)) == len(ranks):
        return {one.path: f"rank-{one.rank:04}.flood" for one in kept}
    is_rank = main.name.startswith("rank-")
    return {
        one.path: main.name if is_rank and one.path == main else f"process-{one.pid}.flood"
        for one in kept
    }


def _free(path: Path, one: _Recorded) -> Path:
    """A name that no other trace has: a process that calls `os.execv` writes two traces."""
    number, free = 1, path
    while free.exists() and free != one.path:
        number += 1
        free = path.with_name(f"process-{one.pid}-{number}{path.suffix}")
    return free


def _free_folder(path: Path, *, may_replace: bool) -> Path:
    """A free name for a new folder; a folder that has only traces may be replaced."""
    if may_replace and path.is_dir() and remove_traces(path):
        return path
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def _pid_in(path: Path) -> int:
    """The PID in the name of a trace (`trace_path`)."""
    return int(path.name.partition("-")[0])


def _opened(path: Path) -> _Recorded | None:
    with contextlib.suppress(OSError, _core.FloodmarkError):
        return _Recorded(path, Trace.open(path))
    return None


def _journal(path: Path) -> Path:
    return path.with_name(path.name + ".journal")


def _move(path: Path, to: Path) -> None:
    path.rename(to)
    if _journal(path).exists():
        _journal(path).rename(_journal(to))


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    shutil.rmtree(_journal(path), ignore_errors=True)


def _is_being_recorded(path: Path) -> bool:
    with contextlib.suppress(OSError, _core.FloodmarkError):
        return _core.is_being_recorded(path)
    return False
