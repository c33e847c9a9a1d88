"""A recorded process on a simulated GPU: its steps, its forks and its end.

Sees: torch once it is imported, and the end of this process. Talks to: the recorder, the engine's
session, `recording.steps`. Does not see other processes.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from floodmark import _core, torch_private
from floodmark.estimate import program_files, repeatable
from floodmark.estimate.fake.session import FakeSession
from floodmark.estimate.operator_cost import OperatorCounter
from floodmark.estimate.phantom.session import PhantomSession
from floodmark.estimate.step_cost import StepMeasure
from floodmark.recording import header_facts
from floodmark.recording.import_watch import ImportWatch
from floodmark.recording.recorder import Recorder
from floodmark.recording.steps import Progress, StepWatch

#: How long to wait for the recorder's writer, which needs a few milliseconds.
_WAIT_MILLIS = 1000


class Simulated:
    """Records from `begin` to the end of the process, also if that is `os._exit`."""

    def __init__(
        self,
        recorder: Recorder,
        session: PhantomSession | FakeSession,
        folder: Path | None,
        *,
        steps: int | None,
        until_steady: bool = False,
        quiet: bool,
        ops: bool = False,
        files_to: str = "",
        counter: OperatorCounter | None = None,
        measure: StepMeasure | None = None,
        is_try: bool = False,
    ) -> None:
        self._recorder = recorder
        self._session = session
        self._folder = folder
        self._pid = os.getpid()
        self._fork: Recorder | None = None
        self._ops = ops
        self._files_to = files_to
        self._counter = counter
        self._measure = measure
        self._is_try = is_try
        self._progress = Progress(self._peaks, quiet=quiet)
        goes_on = None if measure is None else self._goes_on
        is_enough = self._has_steady_peaks if until_steady else None
        self._watch = StepWatch(
            steps, self._step_ended, self._end_by_steps, goes_on, is_enough=is_enough
        )

    def begin(self) -> None:
        """Count steps, and register for the end of the process."""
        if self._is_try:
            repeatable.begin()
        # Registered first, so it runs last: the program's exit handlers are still recorded.
        atexit.register(self.finish)
        _before_exit(self._leave)
        # Watch after the recorder, whose hooks then run first.
        ImportWatch("torch", self._attach)

    def finish(self) -> None:
        """Finish the trace of this process."""
        if self._files_to and (os.getpid() == self._pid or self._fork is not None):
            program_files.write(self._files_to)
        if os.getpid() != self._pid:
            if self._fork is not None:
                self._fork.stop()
            return
        self._progress.close()
        with contextlib.suppress(Exception):
            self._note_rank()
        self._recorder.stop()

    def _leave(self, status: int) -> None:
        if os.getpid() == self._pid:
            self._session.outcome.leave(status)
        self.finish()

    def _step_ended(self, torch: ModuleType, step: int) -> None:
        if step == 1:
            self._note_rank()
        if self._is_try and step <= repeatable.STEPS:
            repeatable.collect_young()
        if self._measure is not None and self._recorder.is_open:
            self._measure.recorded_step_ended(torch)
        if self._counter is not None:
            self._counter.step_ended()
        self._progress.step_ended(step)

    def _peaks(self, wait_millis: int) -> list[tuple[str, int]]:
        return (self._fork or self._recorder).peaks(wait_millis)

    def _has_steady_peaks(self) -> bool:
        """Whether the last two steps had the same peaks on every GPU."""
        recorder = self._fork or self._recorder
        peaks: dict[int, dict[str, tuple[int, int]]] = {}
        for row in recorder.ended_steps(0, _WAIT_MILLIS):
            if row["device"] != "cpu":
                of_step = peaks.setdefault(row["step"], {})
                of_step[row["device"]] = (row["peak"], row["reserved_peak"])
        *_, before, last = [None, None, *(peaks[step] for step in sorted(peaks))]
        return last is not None and last == before

    def _note_rank(self) -> None:
        """Set a rank that only `init_process_group(rank=…)` got, not the environment."""
        c10d: Any = sys.modules.get("torch.distributed.distributed_c10d")
        if c10d is not None and c10d.is_initialized():
            (self._fork or self._recorder).set_rank(c10d.get_rank(), c10d.get_world_size())

    def _end_by_steps(self) -> None:
        """Write the end into the trace now: the program may catch it or exit in any way."""
        self._session.outcome.end_by_steps()
        (self._fork or self._recorder).refresh()

    def _goes_on(self) -> bool:
        """Called after enough recorded steps; returns whether to measure further ones."""
        if self._measure is None or os.getpid() != self._pid:
            return False
        if self._recorder.is_open:
            self._session.outcome.end_by_steps()
            self._recorder.stop()
            # The recorder's hooks would add to the program's time.
            _core.disarm()
            self._measure.begin()
            return True
        return self._measure.goes_on()

    def _attach(self, torch: ModuleType) -> None:
        self._watch.attach(torch)
        if self._is_try:
            torch_private.when_cuda_is_ready(torch, repeatable.collect_young)
        if self._counter is not None:
            counter = self._counter
            counter.attach(torch)
            header_facts.add(lambda: {"cost": counter.cost()})
        if self._folder is not None:
            torch_private.when_cuda_is_ready(torch, self._record_fork)

    def _record_fork(self) -> None:
        """In a fork of a recorded process, start a recording once CUDA is ready."""
        if os.getpid() == self._pid or self._fork is not None or self._folder is None:
            return
        with contextlib.suppress(Exception):
            fork = Recorder(trace_path(self._folder), ops=self._ops).start()
            self._fork = None if fork.failure else fork


def trace_path(folder: Path) -> Path:
    """A free name for the trace of this process."""
    return folder / f"{os.getpid()}-{time.monotonic_ns()}.flood"


def _before_exit(call: Callable[[int], None]) -> None:
    """Call `call` with the status before `os._exit` ends the process."""
    leave = os._exit

    def _exit(status: int) -> Any:
        with contextlib.suppress(Exception):
            call(status)
        leave(status)

    os._exit = _exit
