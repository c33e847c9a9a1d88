"""A callback for the `Trainer` of transformers.

    from floodmark.integrations.transformers import FloodmarkCallback

    trainer = Trainer(…, callbacks=[FloodmarkCallback()])

Records `train` into `memory.flood` in `output_dir`, and adds to each entry of the log history the
peak of memory since the previous entry. In an evaluation every batch is a step. At the end of
`train` it prints a summary.

The trainer does not report errors to its callbacks. A training that raised leaves its recording
open; it is finished, and an `OutOfMemoryError` explained, when the next one begins or the program
ends.

Sees: the trainer's events. Talks to: `_live`. Knows nothing of the probe.
"""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from floodmark import _core
from floodmark.integrations._live import (
    LAST_WAIT_MILLIS,
    WAIT_MILLIS,
    Guarded,
    Live,
    Step,
    TracePath,
    guarded,
    merged,
    say_end,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from floodmark.recording.recorder import TraceOptions

_EVAL = "eval"


class FloodmarkCallback(Guarded, TrainerCallback):  # type: ignore[misc]
    """Records a training and logs the peaks of memory.

    `path` is the trace; by default `memory.flood` in `output_dir`. With several processes, each
    adds its rank to the name. `steps` are the first step to record and the first that is not,
    counted from 0; all by default. `summary=False` prints no summary at the end. Other options are
    those of `floodmark.trace`.

    `Trainer` calls callbacks in their order, and those of `report_to` come before the user's.
    `attach` puts this one in front of them, so that TensorBoard and others get the figures too.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        steps: tuple[int, int] | None = None,
        summary: bool = True,
        **options: Unpack[TraceOptions],
    ) -> None:
        super().__init__()
        self._path = path
        self._steps = steps
        self._summary = summary
        self._options = options
        self._is_first = True
        self._batches = 0
        self._known: list[Step] = []
        self._is_at_exit = False

    def attach(self, trainer: Any) -> FloodmarkCallback:
        """Make this the first callback of a trainer."""
        trainer.callback_handler.callbacks.insert(0, self)
        return self

    def _begin(self, args: Any) -> None:
        default = Path(args.output_dir) / "memory.flood"
        place = TracePath(self._path or default, int(args.process_index), int(args.world_size))
        self.live = Live(place, self._options)
        self._known.clear()
        if not self._is_at_exit:
            self._is_at_exit = True
            atexit.register(self._at_exit)

    @guarded
    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin to record."""
        self._finish(_last_error())
        self._is_first = bool(state.is_world_process_zero)
        if self._steps is None:
            self._begin(args)

    @guarded
    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin to record at the first of the requested steps."""
        if self.live is None and self._steps is not None:
            first, end = self._steps
            if first <= int(state.global_step) < end:
                self._begin(args)

    @guarded
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End a step, which `global_step` counts already."""
        if self.live is None:
            return
        self.live.end_step("train", int(state.global_step) - 1)
        self._known += self.live.take()
        if self._steps is not None and int(state.global_step) >= self._steps[1]:
            self._known += self.live.take(LAST_WAIT_MILLIS)
            self._finish(None)

    @guarded
    def on_prediction_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End a step after each batch of an evaluation."""
        if self.live is not None:
            self.live.end_step(_EVAL, self._batches)
            self._batches += 1
        elif self._steps is None:
            # Outside `train` there is no recording of ours: the batch ends a step of other
            # recordings.
            _core.step()

    @guarded
    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Add the figures since the previous log entry."""
        if self.live is not None:
            self._known += self.live.take(WAIT_MILLIS)
        known, self._known = self._known, []
        if not known:
            return
        metrics: dict[str, int] = {}
        for prefix, is_eval in (("", False), ("eval_", True)):
            step = merged(step for step in known if (step.loop == _EVAL) == is_eval)
            metrics |= step.metrics(prefix) if step is not None else {}
        if state.log_history:
            state.log_history[-1].update(metrics)
        if logs is not None:
            logs.update(metrics)

    @guarded
    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End the recording."""
        self._finish(None)

    def _at_exit(self) -> None:
        try:
            self._finish(_last_error())
        except Exception as error:
            self.give_up(error)

    def _finish(self, error: BaseException | None) -> None:
        live, self.live = self.live, None
        if live is None:
            return
        trace = live.stop()
        if self._summary and self._is_first:
            say_end(trace, live.recorder.path, error)


def _last_error() -> BaseException | None:
    """The exception whose traceback the interpreter last printed."""
    error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return error if isinstance(error, BaseException) else None
