"""Suppresses floodmark's own errors and lets the program's exceptions pass.

Between any two instructions of Python code, also floodmark's, Python may run a signal handler of
the program or raise an exception that another thread sent. Those exceptions are the program's.
Sees: exceptions and their frames. Code that runs while a program trains is native and cannot be
interrupted so.
"""

from __future__ import annotations

from types import FrameType, TracebackType


class OwnErrors:
    """A block that suppresses floodmark's errors; `error` is the last one."""

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
    """Whether a signal handler raised the error or another thread sent it."""
    frame: FrameType | None = None
    traceback = error.__traceback__
    while traceback is not None:
        caller, frame = frame, traceback.tb_frame
        # Only a signal handler gets the frame that it interrupts as an argument.
        if caller is not None and _has_local(frame, caller):
            return True
        traceback = traceback.tb_next
    # An exception that was sent to a thread has no arguments; floodmark's errors have a message.
    return not error.args and not isinstance(error, (MemoryError, AssertionError))


def _has_local(frame: FrameType, value: FrameType) -> bool:
    return any(
        found is value or (isinstance(found, tuple) and any(each is value for each in found))
        for found in frame.f_locals.values()
    )
