"""Reads the figures of each step while the recording runs.

The recorder's writer computes totals per device anyway, and keeps those of each ended step until
they are read. So nothing is measured twice, the growing file is not read, and the step does not
wait: figures arrive up to 50 ms after their step, under the loop's name for it. A caller that needs
them at once passes how long to wait.

Sees: the steps of its window. Talks to: the recorder, and torch's optimizer hooks if a loop reports
no steps. Knows no library. Nothing raises into the loop: a failure prints one warning, and the loop
continues.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from floodmark import _core
from floodmark.recording.recorder import TraceOptions, say, trace
from floodmark.recording.steps import StepWatch
from floodmark.recording.window_options import say_text
from floodmark.reports.trace import Trace

if TYPE_CHECKING:
    from floodmark.reports import answer_types

#: The wait of a caller that needs figures at once: the writer needs a few milliseconds.
WAIT_MILLIS = 100
#: The wait at the end of the loop.
LAST_WAIT_MILLIS = 2000


@dataclass(frozen=True)
class Totals:
    """The totals of one device in one step, or in several."""

    #: The peak of allocated bytes.
    peak: int
    #: The allocated bytes at the end.
    allocated: int
    #: `allocated` minus its value in the previous step; None in the first step.
    growth: int | None
    #: The peak of reserved bytes; None on the CPU.
    reserved_peak: int | None
    #: The reserved bytes at the end; None on the CPU.
    reserved: int | None


@dataclass(frozen=True)
class Step:
    """An ended step: its loop, its number there, and its totals by device."""

    loop: str
    number: int
    devices: dict[str, Totals]

    def metrics(self, prefix: str = "") -> dict[str, int]:
        """Names for loggers, such as `memory/cuda0/peak`: some take no colons. All in bytes."""
        return {
            f"{prefix}memory/{device.replace(':', '')}/{name}": value
            for device, totals in self.devices.items()
            for name, value in vars(totals).items()
            if value is not None
        }


def merged(steps: Iterable[Step]) -> Step | None:
    """Merge several steps into one with the number of the last; None for no steps."""
    whole: Step | None = None
    for step in steps:
        before = whole.devices if whole is not None else {}
        devices = dict(before)
        for device, totals in step.devices.items():
            devices[device] = _joined(before[device], totals) if device in before else totals
        whole = Step(step.loop, step.number, devices)
    return whole


def _joined(one: Totals, next_one: Totals) -> Totals:
    growths = [growth for growth in (one.growth, next_one.growth) if growth is not None]
    peaks = [peak for peak in (one.reserved_peak, next_one.reserved_peak) if peak is not None]
    return Totals(
        peak=max(one.peak, next_one.peak),
        allocated=next_one.allocated,
        growth=sum(growths) if growths else None,
        reserved_peak=max(peaks) if peaks else None,
        reserved=next_one.reserved,
    )


@dataclass(frozen=True)
class TracePath:
    """The path of a trace, and the rank and world size of its process."""

    path: str | os.PathLike[str]
    rank: int = 0
    world_size: int = 1

    def free_path(self) -> Path:
        """The path with the rank if there are several processes: `fit.rank-0001.flood`."""
        path = Path(self.path)
        if self.world_size > 1:
            path = path.with_name(f"{path.stem}.rank-{self.rank:04}{path.suffix}")
        # A killed process leaves its journal, from which its trace can be completed.
        number, free = 1, path
        while free.with_name(f"{free.name}.journal").exists():
            number += 1
            free = path.with_name(f"{path.stem}-{number}{path.suffix}")
        return free.absolute()


class Live:
    """A recording of a loop, with its steps.

    It is independent of other recordings (`floodmark run`, `floodmark.trace`), which do not get its
    steps.
    """

    def __init__(self, path: TracePath, options: TraceOptions) -> None:
        self._names: dict[int, tuple[str, int]] = {}
        self._rows: list[answer_types.StepTotals] = []
        self._before: dict[str, int] = {}
        self._first = 0
        self._watch: StepWatch | None = None
        self.path = path.free_path()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.recorder = trace(self.path, **options).start()

    @property
    def is_running(self) -> bool:
        """Whether the recording is open."""
        return self.recorder.is_open

    def end_step(self, loop: str, number: int) -> None:
        """End a step, which is logged under this loop and number."""
        ended = self.recorder.step()
        if ended is not None:
            self._names[ended] = (loop, number)

    def follow_optimizers(self, loop: str, on_step: Callable[[], None]) -> None:
        """End a step of the loop at every optimizer step, then call `on_step`."""
        import torch

        def ended(_: object, count: int) -> None:
            self.end_step(loop, count - 1)
            on_step()

        self._watch = StepWatch(None, ended)
        self._watch.attach(torch)

    def take(self, wait_millis: int = 0) -> list[Step]:
        """The steps that ended since the last call.

        A step that the user ended with `floodmark.step` is part of the next one of the loop.
        """
        if not self._names:
            return []
        for row in self.recorder.ended_steps(self._first, wait_millis):
            self._first = max(self._first, row["step"] + 1)
            self._rows.append(row)
        known = {row["step"] for row in self._rows}
        steps = []
        for ended in sorted(known.intersection(self._names)):
            loop, number = self._names.pop(ended)
            rows = [row for row in self._rows if row["step"] <= ended]
            self._rows = [row for row in self._rows if row["step"] > ended]
            whole = merged(Step(loop, number, {row["device"]: self._totals(row)}) for row in rows)
            if whole is not None:
                steps.append(whole)
        # Before the first step nothing was allocated.
        self._names = {at: name for at, name in self._names.items() if at >= self._first}
        return steps

    def _totals(self, row: answer_types.StepTotals) -> Totals:
        device, end = row["device"], row["end"]
        before = self._before.get(device)
        self._before[device] = end
        on_host = device == "cpu"
        return Totals(
            peak=row["peak"],
            allocated=end,
            growth=None if before is None else end - before,
            reserved_peak=None if on_host else row["reserved_peak"],
            reserved=None if on_host else row["reserved"],
        )

    def stop(self) -> Trace | None:
        """End the recording, and read it; None if nothing was recorded."""
        self.release()
        with contextlib.suppress(_core.FloodmarkError):
            return self.recorder.trace
        return None

    def release(self) -> None:
        """Remove the hooks, and finish the file of the recording."""
        if self._watch is not None:
            self._watch.detach()
        self.recorder.stop()


def say_end(trace: Trace | None, path: Path | None, error: BaseException | None = None) -> None:
    """Print a summary of the recording; after an out-of-memory error, why memory ran out."""
    if trace is None:
        return
    say(f"recorded into {path}")
    text = str(trace)
    if error is not None and is_about_memory(error):
        with contextlib.suppress(_core.FloodmarkError):
            text = f"{text.rstrip()}\n\n{trace.oom()}"
    say_text(f"{text.rstrip()}\n")


def is_about_memory(error: BaseException | None) -> bool:
    """Whether an error or one of its causes is torch's `OutOfMemoryError`."""
    seen = 0
    while error is not None and seen < 10:
        if any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
            return True
        error = error.__cause__ or error.__context__
        seen += 1
    return False


class Guarded:
    """The base of callbacks in a loop: methods with `guarded` do not raise."""

    def __init__(self) -> None:
        self.live: Live | None = None
        self.failure = ""

    def give_up(self, error: Exception) -> None:
        """After an error of ours: print one warning, finish the trace, and do nothing from then
        on."""
        if not self.failure:
            self.failure = repr(error)
            say(f"memory is no longer logged, the program continues: {error!r}")
        live, self.live = self.live, None
        with contextlib.suppress(Exception):
            if live is not None:
                live.release()


_Method = TypeVar("_Method", bound=Callable[..., None])


def guarded(method: _Method) -> _Method:
    """Wrap a method so that it raises no `Exception`; after a failure it does nothing."""

    @functools.wraps(method)
    def call(self: Guarded, *args: Any, **kwargs: Any) -> None:
        if self.failure:
            return
        try:
            method(self, *args, **kwargs)
        except Exception as error:
            self.give_up(error)

    return cast(_Method, call)
