"""Measures the cost of a step in further steps after the recorded ones.

The recording has ended by then, so this cannot change it. The first further step counts operators.
The next ones run as on a GPU, without a recorder and without computed values: no kernel runs, so
the processor time of a step is the host's time for it, and the shortest one is the answer. The
program reads the values of the first further step again. A step with a different number of
allocations does not count.

Sees: the ends of steps, torch's counters, reads of values. Talks to: `operator_cost`, the phantom,
and the process that waits for this one, by a file.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floodmark.estimate.operator_cost import OperatorCounter

if TYPE_CHECKING:
    from floodmark.estimate.device.library import Phantom
    from floodmark.reports.answer_types import StepCost

#: The limits of timed steps and of their processor time. The shortest of several steps is the one
#: that other processes disturbed least.
_TIMED_STEPS = 3
_TIMED_NANOS = 500_000_000

#: Steps count as equal if their numbers of allocations differ by at most one in this many.
_ALIKE = 50

_NAME = "step-cost.json"


class StepMeasure:
    """Counts the operators of one step, then times further ones."""

    def __init__(self, folder: Path, phantom: Phantom) -> None:
        self._path = folder / _NAME
        self._phantom = phantom
        self._pid = os.getpid()
        self._torch: Any = None
        self._counter: OperatorCounter | None = None
        self._reads: _Reads | None = None
        self._cost: StepCost | None = None
        self._timed = 0
        self._timed_nanos = 0
        #: Processor time and number of allocations at the begin of the step.
        self._began = 0
        self._allocated = 0
        #: The number of allocations of the last recorded step.
        self._allocations = 0
        # That it was asked for is known even if no step ends.
        self._write()

    def recorded_step_ended(self, torch: Any) -> None:
        """A recorded step has ended."""
        self._torch = torch
        self._allocations = self._allocations_until_now() - self._allocated
        self._begin_step()

    def begin(self) -> None:
        """Begin to measure after the last recorded step."""
        self._counter = OperatorCounter()
        self._counter.attach(self._torch)
        self._reads = _Reads(self._torch)
        self._begin_step()

    def goes_on(self) -> bool:
        """End a further step; returns whether to run one more."""
        taken = time.process_time_ns() - self._began
        allocations = self._allocations_until_now() - self._allocated
        if self._counter is not None:
            counter, self._counter = self._counter, None
            goes_on = self._end_counting(counter)
        else:
            goes_on = self._end_timed(taken, allocations)
        if self._reads is not None:
            self._reads.repeat()
        self._begin_step()
        return goes_on

    def _end_counting(self, counter: OperatorCounter) -> bool:
        counter.step_ended()
        self._cost = counter.cost()
        self._write()
        # Another mode is above the counting one, which therefore stays and adds to a step's time.
        if not counter.detach():
            return False
        self._phantom.stop_following()
        return True

    def _end_timed(self, taken: int, allocations: int) -> bool:
        is_alike = abs(allocations - self._allocations) * _ALIKE <= self._allocations
        if self._cost is None or not is_alike:
            return False
        before = self._cost["host_nanos"]
        self._cost["host_nanos"] = taken if before is None else min(before, taken)
        self._write()
        self._timed += 1
        self._timed_nanos += taken
        return self._timed < _TIMED_STEPS and self._timed_nanos < _TIMED_NANOS

    def _begin_step(self) -> None:
        self._allocated = self._allocations_until_now()
        self._began = time.process_time_ns()

    def _allocations_until_now(self) -> int:
        with contextlib.suppress(Exception):
            return int(self._torch.cuda.memory_stats()["allocation.all.allocated"])
        return 0

    def _write(self) -> None:
        if os.getpid() != self._pid:
            return
        with contextlib.suppress(OSError):
            partial = self._path.with_suffix(".partial")
            partial.write_text(json.dumps(self._cost))
            partial.rename(self._path)


class _Reads:
    """Records the values that a step reads from the GPU, and repeats them in later steps."""

    _NAMES = ("item", "tolist", "__bool__", "__int__", "__float__", "__index__")

    def __init__(self, torch: Any) -> None:
        self._values: list[object] = []
        self._waiting: deque[object] | None = None
        for name in self._NAMES:
            setattr(torch.Tensor, name, self._reading(getattr(torch.Tensor, name)))

    def repeat(self) -> None:
        """Begin a step that reads the recorded values again."""
        self._waiting = deque(self._values)

    def _reading(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def read(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if not tensor.is_cuda:
                return original(tensor, *args, **kwargs)
            if self._waiting:
                return self._waiting.popleft()
            value = original(tensor, *args, **kwargs)
            if self._waiting is None:
                self._values.append(value)
            return value

        return read


def measured_in(folder: Path | None) -> str | None:
    """The cost that the program's process has written, as JSON; `null` if it measured no step."""
    if folder is None:
        return None
    try:
        return (folder / _NAME).read_text()
    except OSError:
        return None
