"""Recordings as a user starts them: `trace`, `start`, `stop`, and what a program says of itself.

Talks to: `window`, which has the recordings, and `_core`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from floodmark import _core
from floodmark.recording import steps
from floodmark.recording.window import Recorder
from floodmark.recording.window_options import (
    parse_bytes,
    parse_devices,
    rank_of_process,
    say,
)

__all__ = [
    "Recorder",
    "is_recording",
    "mark",
    "parse_bytes",
    "parse_devices",
    "phase",
    "rank_of_process",
    "say",
    "start",
    "step",
    "stop",
    "trace",
]


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
    stacks and operator names are recorded. `max_memory` limits the recorder's own memory; the
    least is `"16MiB"`. With `follow_fork` forked children are recorded too, each into its own file.

    A finished trace of the same name is replaced. Any other file, a symbolic link and a recording
    that was not finished are replaced only with `force`. A recording that runs, a folder and a
    device are never replaced.

    Recordings may run inside each other, beside each other and on several threads. Each sees all
    events of its devices from its start to its end, and none disturbs another.
    """
    return Recorder(
        path,
        devices=devices,
        stacks=stacks,
        ops=ops,
        max_memory=max_memory,
        follow_fork=follow_fork,
        replace=_core.MayReplace.ANY_FILE if force else _core.MayReplace.TRACE,
    )


_started: list[Recorder] = []


def start(path: str | os.PathLike[str] | None = None, **options: Any) -> Recorder:
    """Begin to record; `stop` ends it. Takes what `trace` takes."""
    recorder = trace(path, **options).start()
    _started.append(recorder)
    return recorder


def stop() -> Recorder | None:
    """End the recording that the last `start` began, and return it."""
    if not _started:
        return None
    recorder = _started.pop()
    recorder.stop()
    return recorder


def is_recording() -> bool:
    """Whether a recording is open in this process."""
    return _core.is_recording()


def step() -> None:
    """Say that a training step ended. Without it, every optimizer step ends one."""
    _core.step()
    steps.user_stepped()


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
