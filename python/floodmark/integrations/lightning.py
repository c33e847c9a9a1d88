"""A callback for Lightning: `lightning.pytorch`, or `pytorch_lightning` where that is in use.

    from floodmark.integrations.lightning import FloodmarkCallback

    trainer = Trainer(callbacks=[FloodmarkCallback()])

Records from before the model is on its device to the end of `fit`, `validate`, `test` or `predict`,
passes the figures of the steps to the trainer's loggers, and prints a summary at the end, or after
an `OutOfMemoryError` why memory ran out.

The figures go to the loggers directly. `self.log` would allocate a tensor on the device for each,
and accepts figures only for the current step, while some arrive later.

Sees: the trainer's loops. Talks to: `_live`. Knows nothing of the probe.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

# Both packages have a `Trainer`, which accepts the callbacks of its own package alone.
if "lightning" not in sys.modules and "pytorch_lightning" in sys.modules:
    from pytorch_lightning import Callback
else:
    try:
        from lightning.pytorch import Callback
    except ModuleNotFoundError:
        from pytorch_lightning import Callback

_TRAIN = "train"
_SANITY_CHECK = "sanity_check"


class FloodmarkCallback(Guarded, Callback):  # type: ignore[misc]
    """Records a loop of Lightning and logs the peaks of memory.

    `path` is the trace; by default `memory.flood` in the trainer's `default_root_dir`. With several
    processes, each adds its rank to the name. `steps` are the first training step to record and the
    first that is not, counted from 0; all by default. `every_n_steps` is the interval of logging,
    by default the trainer's; each log covers all steps since the previous one, so no peak is
    missed. With `all_ranks` every process logs, not only the first. `summary=False` prints no
    summary at the end. Other options are those of `floodmark.trace`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        steps: tuple[int, int] | None = None,
        every_n_steps: int | None = None,
        all_ranks: bool = False,
        summary: bool = True,
        **options: Unpack[TraceOptions],
    ) -> None:
        Guarded.__init__(self)
        self._path = path
        self._steps = steps
        self._every = every_n_steps
        self._all_ranks = all_ranks
        self._summary = summary
        self._options = options
        self._window: dict[str, list[Step]] = {}
        self._number = 0
        self._batches: dict[str, int] = {}
        self._global_step = 0

    def _begin(self, trainer: Any) -> None:
        default = Path(trainer.default_root_dir) / "memory.flood"
        place = TracePath(self._path or default, int(trainer.global_rank), int(trainer.world_size))
        self.live = Live(place, self._options)
        self._window.clear()

    @guarded
    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Begin to record, before the model is on its device."""
        self._batches.clear()
        if self.live is None and (stage != "fit" or self._steps is None):
            self._begin(trainer)

    @guarded
    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Read the first step, which a checkpoint may have set."""
        self._global_step = int(trainer.global_step)
        self._number = self._global_step // max(1, len(trainer.optimizers))

    @guarded
    def on_train_batch_start(self, trainer: Any, *_: Any, **__: Any) -> None:
        """Begin to record at the first of the requested steps."""
        if self.live is None and self._steps is not None:
            first, end = self._steps
            if first <= self._number < end:
                self._begin(trainer)

    @guarded
    def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        """End a step, unless gradients are still being accumulated."""
        step = int(trainer.global_step)
        if trainer.optimizers and step == self._global_step:
            return
        self._global_step = step
        if self.live is not None:
            self.live.end_step(_TRAIN, self._number)
        self._number += 1
        self._log(trainer, 0)
        if self._steps is not None and self._number >= self._steps[1]:
            self._finish(trainer, None)

    def _end_batch(self, loop: str) -> None:
        """End a step after each batch of a loop without an optimizer."""
        if self.live is not None:
            self.live.end_step(loop, self._batches.get(loop, 0))
            self._batches[loop] = self._batches.get(loop, 0) + 1

    @guarded
    def on_validation_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        """End the step of this batch."""
        self._end_batch(_SANITY_CHECK if trainer.sanity_checking else "validation")

    @guarded
    def on_test_batch_end(self, *_: Any, **__: Any) -> None:
        """End the step of this batch."""
        self._end_batch("test")

    @guarded
    def on_predict_batch_end(self, *_: Any, **__: Any) -> None:
        """End the step of this batch."""
        self._end_batch("predict")

    @guarded
    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Log one figure for the whole loop."""
        self._log(trainer, WAIT_MILLIS, whole=True)

    @guarded
    def on_test_end(self, trainer: Any, pl_module: Any) -> None:
        """Log one figure for the whole loop."""
        self._log(trainer, WAIT_MILLIS, whole=True)

    @guarded
    def on_predict_end(self, trainer: Any, pl_module: Any) -> None:
        """Log one figure for the whole loop."""
        self._log(trainer, WAIT_MILLIS, whole=True)

    @guarded
    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Log the remaining steps."""
        self._log(trainer, LAST_WAIT_MILLIS, whole=True)

    @guarded
    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Finish the trace of a loop that failed, before anything else happens."""
        self._finish(trainer, exception)

    @guarded
    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """End the recording."""
        self._finish(trainer, None)

    def _finish(self, trainer: Any, error: BaseException | None) -> None:
        if self.live is None:
            return
        self._log(trainer, LAST_WAIT_MILLIS, whole=True)
        live, self.live = self.live, None
        trace = live.stop()
        tells = self._summary and (self._all_ranks or trainer.is_global_zero)
        if tells:
            say_end(trace, live.recorder.path, error)

    def _log(self, trainer: Any, wait_millis: int, *, whole: bool = False) -> None:
        """Log the new steps: groups of `every_n_steps`, or all of them."""
        if self.live is None:
            return
        every = max(1, self._every or int(trainer.log_every_n_steps) or 1)
        for step in self.live.take(wait_millis):
            window = self._window.setdefault(step.loop, [])
            window.append(step)
            if step.loop == _TRAIN and (step.number + 1) % every == 0:
                self._pass_to_loggers(trainer, self._window.pop(_TRAIN))
        if whole:
            for loop in list(self._window):
                self._pass_to_loggers(trainer, self._window.pop(loop))

    def _pass_to_loggers(self, trainer: Any, window: list[Step]) -> None:
        step = merged(window)
        # Lightning does not log its sanity check.
        if (
            step is None
            or step.loop == _SANITY_CHECK
            or not (self._all_ranks or trainer.is_global_zero)
        ):
            return
        is_train = step.loop == _TRAIN
        metrics = step.metrics("" if is_train else f"{step.loop}_")
        for logger in trainer.loggers:
            logger.log_metrics(metrics, step=step.number if is_train else self._number)
