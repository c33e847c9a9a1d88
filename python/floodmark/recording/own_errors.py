"""Tells an error of ours from an exception that is the program's.

Python runs a program's signal handlers, and raises what other threads send to this one, between any
two instructions of Python code, also of ours. What arises so is the program's, and passes. Sees:
exceptions and their frames. Code that runs while a program trains is native, where nothing arises.
"""

from __future__ import annotations

from types import FrameType, TracebackType


class OwnErrors:
    """A block in which errors of ours are suppressed; the last one is kept."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def __enter__(self) -> OwnErrors:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception) or is_from_outside(error):
            return False
        self.error = error
        return True


def is_from_outside(error: Exception) -> bool:
    """Whether a signal handler raised it, or another thread sent it."""
    frame: FrameType | None = None
    traceback = error.__traceback__
    while traceback is not None:
        caller, frame = frame, traceback.tb_frame
        # Only a signal handler is called with the frame that it interrupts.
        if caller is not None and _has_local(frame, caller):
            return True
        traceback = traceback.tb_next
    # What is sent to a thread is an exception without arguments; errors of ours have a message.
    return not error.args and not isinstance(error, (MemoryError, AssertionError))


def _has_local(frame: FrameType, value: FrameType) -> bool:
    return any(
        found is value or (isinstance(found, tuple) and any(each is value for each in found))
        for found in frame.f_locals.values()
    )
