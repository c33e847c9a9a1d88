"""The figures of each step, while the recording still runs.

The recorder's writer adds up every device anyway, and keeps the totals of each step that ended
until somebody asks. So nothing is measured a second time, the growing file is not read again, and
the step does not wait: figures come up to a twentieth of a second after their step, under the name
that the loop gave it. Only who has to hand them on at once waits, and says how long.

Sees: the steps of its window. Talks to: the recorder, and torch's optimizer hooks where a loop
reports no steps. Knows no library. Nothing raises into the loop: a failure is said once,
and the loop goes on.
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

#: For who hands figures on at once: the writer needs a few milliseconds.
WAIT_MILLIS = 100
#: When the loop is over.
LAST_WAIT_MILLIS = 2000


@dataclass(frozen=True)
class Totals:
    """One device in one step, or in several."""

    #: The peak of allocated bytes.
    peak: int
    #: What was allocated at the end.
    allocated: int
    #: `allocated` less that at the end of the step before; None in the first step.
    growth: int | None
    #: The peak of reserved bytes; None on the CPU.
    reserved_peak: int | None
    #: What was reserved at the end; None on the CPU.
    reserved: int | None


@dataclass(frozen=True)
class Step:
    """A step that ended: which loop it belongs to, its number there, and its totals by device."""

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
    """Several steps as one, under the number of the last; None of none."""
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
    """Where a trace is to be, and which process of how many writes it."""

    path: str | os.PathLike[str]
    rank: int = 0
    world_size: int = 1

    def free_path(self) -> Path:
        """Every process of several has a file of its own: `fit.rank-0001.flood`."""
        path = Path(self.path)
        if self.world_size > 1:
            path = path.with_name(f"{path.stem}.rank-{self.rank:04}{path.suffix}")
        # One that was killed has left its journal, with which its trace is still whole.
        number, free = 1, path
        while free.with_name(f"{free.name}.journal").exists():
            number += 1
            free = path.with_name(f"{path.stem}-{number}{path.suffix}")
        return free.absolute()


class Live:
    """A recording of a loop, with its steps.

    It is a recording of its own, also where another one runs (`floodmark run`, `floodmark.trace`):
    the other one does not see its steps, and goes on after it.
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
        """Whether there is something to tell."""
        return self.recorder.is_open

    def end_step(self, loop: str, number: int) -> None:
        """A step of a loop ended; it will be logged under this name."""
        ended = self.recorder.step()
        if ended is not None:
            self._names[ended] = (loop, number)

    def follow_optimizers(self, loop: str, tell: Callable[[], None]) -> None:
        """Every step of an optimizer ends one of the loop. `tell` is called after it."""
        import torch

        def ended(_: object, count: int) -> None:
            self.end_step(loop, count - 1)
            tell()

        self._watch = StepWatch(None, ended)
        self._watch.attach(torch)

    def take(self, wait_millis: int = 0) -> list[Step]:
        """The steps that became known since the last call.

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
        # In a step before these nothing had been allocated anywhere.
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
        """End the recording, and read it; None where nothing came of it."""
        self.release()
        with contextlib.suppress(_core.FloodmarkError):
            return self.recorder.trace
        return None

    def release(self) -> None:
        """Take hooks off, and leave a recording of ours as a whole file."""
        if self._watch is not None:
            self._watch.detach()
        self.recorder.stop()


def say_end(trace: Trace | None, path: Path | None, error: BaseException | None = None) -> None:
    """Say what the recording came to; after an error that was about memory, why it ran out."""
    if trace is None:
        return
    say(f"recorded into {path}")
    text = str(trace)
    if error is not None and is_about_memory(error):
        with contextlib.suppress(_core.FloodmarkError):
            text = f"{text.rstrip()}\n\n{trace.oom()}"
    say_text(f"{text.rstrip()}\n")


def is_about_memory(error: BaseException | None) -> bool:
    """Whether an error, or what led to it, is torch's `OutOfMemoryError`."""
    seen = 0
    while error is not None and seen < 10:
        if any(kind.__name__ == "OutOfMemoryError" for kind in type(error).__mro__):
            return True
        error = error.__cause__ or error.__context__
        seen += 1
    return False


class Guarded:
    """What is called by somebody's loop: its methods raise nothing, see `guarded`."""

    def __init__(self) -> None:
        self.live: Live | None = None
        self.failure = ""

    def give_up(self, error: Exception) -> None:
        """Something of ours failed: say it once, leave the trace whole, and do nothing any more."""
        if not self.failure:
            self.failure = repr(error)
            say(f"memory is not logged any more, the program continues: {error!r}")
        live, self.live = self.live, None
        with contextlib.suppress(Exception):
            if live is not None:
                live.release()


_Method = TypeVar("_Method", bound=Callable[..., None])


def guarded(method: _Method) -> _Method:
    """No `Exception` comes out of the method; after a failure it does nothing."""

    @functools.wraps(method)
    def call(self: Guarded, *args: Any, **kwargs: Any) -> None:
        if self.failure:
            return
        try:
            method(self, *args, **kwargs)
        except Exception as error:
            self.give_up(error)

    return cast(_Method, call)
