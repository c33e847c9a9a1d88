"""Scalars for TensorBoard: the peak of each step, and what filled it.

    from floodmark.integrations.tensorboard import MemoryScalars

    with MemoryScalars("runs/one"):
        train()

Peak, allocated and reserved bytes are written while the program runs, after each optimizer step.
The categories at a step's peak and the peaks of its phases need the whole recording, and are
written at its end. `write_scalars` writes all of them for any trace.

Values are written as doubles: a float has too few digits for the bytes of a large GPU.

Sees: steps. Talks to: `_live`, a `SummaryWriter`. Knows nothing of the probe.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from torch.utils.tensorboard import SummaryWriter

from floodmark.integrations._live import (
    LAST_WAIT_MILLIS,
    Guarded,
    Live,
    Step,
    TracePath,
    guarded,
    say_end,
)
from floodmark.recording.recorder import rank_of_process
from floodmark.reports.trace import Trace

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from floodmark.recording.recorder import TraceOptions
    from floodmark.reports import answer_types


class MemoryScalars(Guarded):
    """Records a `with` block into a trace, and its steps into TensorBoard's scalars.

    `to` is a `SummaryWriter`, which stays open, or the folder of a new one. `path` is the trace; by
    default `memory.flood` in the folder. With `optimizer_steps=False` a step ends where the program
    calls `step`: in a loop without an optimizer, or where several optimizers make one step.
    `first_step` is the number of the first one. `summary=False` prints no summary at the end. Other
    options are those of `floodmark.trace`.
    """

    def __init__(
        self,
        to: Any,
        path: str | os.PathLike[str] | None = None,
        *,
        optimizer_steps: bool = True,
        first_step: int = 0,
        summary: bool = True,
        **options: Unpack[TraceOptions],
    ) -> None:
        super().__init__()
        self._to = to
        self._path = path
        self._optimizer_steps = optimizer_steps
        self._first_step = first_step
        self._summary = summary
        self._options = options
        self._writer: Any = None
        self._count = 0

    def __enter__(self) -> MemoryScalars:
        self._begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end(error)

    @guarded
    def _begin(self) -> None:
        self._writer = _writer_for(self._to)
        default = Path(self._writer.log_dir) / "memory.flood"
        rank, world_size, _ = rank_of_process()
        self.live = Live(
            TracePath(self._path or default, rank or 0, world_size or 1), self._options
        )
        if self._optimizer_steps:
            self.live.follow_optimizers("train", self._write_known)

    @guarded
    def step(self) -> None:
        """End a step. Only with `optimizer_steps=False`."""
        if self.live is not None and not self._optimizer_steps:
            self.live.end_step("train", self._count)
            self._count += 1
            self._write_known()

    @guarded
    def _write_known(self, wait_millis: int = 0) -> None:
        if self.live is not None:
            for step in self.live.take(wait_millis):
                _write_step(self._writer, step, self._first_step)

    @guarded
    def _end(self, error: BaseException | None) -> None:
        self._write_known(LAST_WAIT_MILLIS)
        live, self.live = self.live, None
        if live is None:
            return
        trace = live.stop()
        if trace is not None:
            _write_contents(trace, self._writer, self._first_step)
        if self._writer is self._to:
            self._writer.flush()
        else:
            self._writer.close()
        if self._summary:
            say_end(trace, live.recorder.path, error)


def write_scalars(trace: Trace, to: Any, *, first_step: int = 0) -> None:
    """Write the steps of a trace: totals, categories and phases, for each of its devices.

    `to` is a `SummaryWriter`, which stays open, or the folder of a new one.
    """
    writer = _writer_for(to)
    for device, step, row in _steps(trace):
        totals = {"peak": row["peak"], "allocated": row["end"], "reserved": row["reserved"]}
        for name, value in totals.items():
            if value is not None:
                _add(writer, f"memory/{device}/{name}", value, first_step + step)
    _write_contents(trace, writer, first_step)
    if writer is to:
        writer.flush()
    else:
        writer.close()


def _writer_for(to: Any) -> Any:
    return SummaryWriter(os.fspath(to)) if isinstance(to, (str, os.PathLike)) else to


def _steps(trace: Trace) -> list[tuple[str, int, answer_types.StepRow]]:
    return [
        (about["device"].replace(":", ""), row["step"], row)
        for about in trace.summary()["devices"]
        for row in trace.peak(about["device"]).by_step()
        if row["step"] is not None
    ]


def _write_step(writer: Any, step: Step, first_step: int) -> None:
    for name, value in step.metrics().items():
        _add(writer, name, value, first_step + step.number)


def _write_contents(trace: Trace, writer: Any, first_step: int) -> None:
    """Write the scalars that need the whole recording."""
    for device, step, row in _steps(trace):
        for kind, values in (("categories", row["categories"]), ("phases", row["phases"])):
            for name, value in values.items():
                tag = f"memory/{device}/{kind}/{name.replace(' ', '_')}"
                _add(writer, tag, value, first_step + step)


def _add(writer: Any, name: str, value: int, step: int) -> None:
    writer.add_scalar(name, value, step, new_style=True, double_precision=True)
