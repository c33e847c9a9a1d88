"""A tracker for accelerate.

    from floodmark.integrations.accelerate import FloodmarkTracker

    memory = FloodmarkTracker()
    accelerator = Accelerator(log_with=[memory])

Records from `init_trackers` to `end_training`, a file for each process. Every `accelerator.log`
adds a line to a `.jsonl` beside the trace: the step, the values, and the peak of memory since the
previous line. `memory.metrics()` gives the same figures for the values that other trackers log.

Steps are those of the optimizers: batches whose gradients are accumulated belong to one step.
Without an optimizer, each `accelerator.log` ends a step.

Sees: accelerate's calls of a tracker. Talks to: `_live`. Knows nothing of the probe.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from accelerate.state import PartialState
from accelerate.tracking import GeneralTracker

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
from floodmark.recording.recorder import Recorder

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from floodmark.recording.recorder import TraceOptions


class FloodmarkTracker(Guarded, GeneralTracker):  # type: ignore[misc]
    """Records a training and logs the peaks of memory.

    `path` is the trace. With several processes, each adds its rank to the name. `summary=False`
    prints no summary at the end. Other options are those of `floodmark.trace`.
    """

    name = "floodmark"
    requires_logging_directory = False
    # Run on every process: each has its own memory.
    main_process_only = False

    def __init__(
        self,
        path: str | os.PathLike[str] = "memory.flood",
        *,
        summary: bool = True,
        **options: Unpack[TraceOptions],
    ) -> None:
        Guarded.__init__(self)
        GeneralTracker.__init__(self)
        self._path = Path(path)
        self._summary = summary
        self._options = options
        self._recorder: Recorder | None = None
        self._lines: IO[str] | None = None
        self._known: list[Step] = []
        self._last: Step | None = None
        self._steps = 0
        self._has_said = False
        self._is_first = True

    @property
    def tracker(self) -> Recorder | None:
        """The recording, whose `trace` answers questions after the end; None if it does not run."""
        return self._recorder

    @guarded
    def start(self) -> None:
        """Begin to record; called by `init_trackers`."""
        state = PartialState()
        self._is_first = bool(state.is_main_process)
        place = TracePath(self._path, int(state.process_index), int(state.num_processes))
        self.live = Live(place, self._options)
        self._recorder = self.live.recorder
        path = self.live.path.with_suffix(".jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lines = open(path, "w", encoding="utf-8")  # noqa: SIM115
        self.live.follow_optimizers("train", self._note)

    def _note(self) -> None:
        if self.live is not None:
            self._steps += 1
            self._known += self.live.take()

    def _write(self, **line: Any) -> None:
        if self._lines is not None:
            self._lines.write(json.dumps(line, default=str) + "\n")
            self._lines.flush()

    @guarded
    def store_init_configuration(self, values: dict[str, Any]) -> None:
        """Write the configuration as the first line."""
        self._write(config=values)

    def metrics(self) -> dict[str, int]:
        """The peaks since the last `log`, in bytes; the next `log` writes the same."""
        try:
            self._catch_up()
        except Exception as error:
            self.give_up(error)
        whole = merged(self._known)
        return whole.metrics() if whole is not None else {}

    def _catch_up(self) -> None:
        if self.live is None:
            return
        if not self._steps and not self._has_said:
            self.live.end_step("log", 0)
            self._has_said = True
        self._known += self.live.take(WAIT_MILLIS)

    @guarded
    def log(self, values: dict[str, Any], step: int | None = None, **_: Any) -> None:
        """Write a line; called by `accelerator.log`."""
        self._catch_up()
        known, self._known = self._known, []
        self._steps, self._has_said = 0, False
        whole = merged(known)
        self._write(step=step, values=values, memory=whole.metrics() if whole is not None else {})

    @guarded
    def finish(self) -> None:
        """End the recording; called by `end_training`."""
        live, self.live = self.live, None
        if live is None:
            return
        whole = merged([*self._known, *live.take(LAST_WAIT_MILLIS)])
        self._known.clear()
        if whole is not None:
            self._write(step=None, values={}, memory=whole.metrics())
        trace = live.stop()
        with contextlib.suppress(OSError):
            if self._lines is not None:
                self._lines.close()
        if self._summary and self._recorder is not None and self._is_first:
            say_end(trace, self._recorder.path)
