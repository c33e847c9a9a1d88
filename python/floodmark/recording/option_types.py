"""The options of a recording.

Made from the Rust types by `make types`: not to be edited.
"""

from __future__ import annotations

from typing import TypedDict


class RecordingOptions(TypedDict, total=False):
    """How a recording is made. Each field is an option of `floodmark.trace` with that name, and
    one of `floodmark run`."""

    stacks: bool
    """Whether the Python call stack of every allocation is recorded."""
    ops: bool
    """Whether the names of operators are recorded, which slows down every operator."""
    source: bool
    """Whether the program's own source files that allocate are stored in the trace, without
    those of installed packages. Needs `stacks`."""
    max_memory: int | str
    """How many bytes the recorder itself may use: a number, or a text such as `256MiB`. At least
    16 MiB."""
    max_events: int | None
    """After how many events the recording stops, checked whenever events are written to a file;
    null for no limit. Without a file, events that fit in memory are always kept."""
    max_seconds: int | None
    """After how many seconds the recording stops, checked whenever events are written or kept;
    null for no limit."""
    follow_fork: bool
    """Whether forked child processes are recorded too, each in its own file."""
