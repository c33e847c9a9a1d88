"""How a program on a simulated GPU ended, and the GPU's entry in its trace.

Sees: an exception or an exit status. Knows nothing of engines.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from floodmark import _core
from floodmark.recording.steps import EnoughSteps

if TYPE_CHECKING:
    from floodmark.reports.answer_types import (
        Engine,
        Phantom,
        PhantomDevice,
        PhantomEnd,
        PhantomRead,
        UnsupportedCall,
    )


class Outcome:
    """How a program ended."""

    def __init__(self) -> None:
        self.ended: PhantomEnd = "unknown"
        self.error = ""
        #: Whether the program had blocks of fake tensors, which are not allocated on this GPU.
        self.has_fake_tensors = False

    def end(self, error: BaseException | None) -> None:
        """Set how the block ended; ignored after `end_by_steps`."""
        if self.ended != "steps":
            self.ended, self.error = ("done", "") if error is None else outcome_of(error)

    def end_by_steps(self) -> None:
        """The program was stopped after enough steps; its later exit does not matter."""
        if self.ended == "unknown":
            self.ended = "steps"

    def leave(self, status: int) -> None:
        """The process exits with a status; used if nothing else is known."""
        if self.ended == "unknown" and status != 0:
            self.ended, self.error = "failed", f"exit status {status}"

    def account(
        self,
        engine: Engine,
        machine: _core.PhantomMachine,
        *,
        is_over: bool,
        devices: list[PhantomDevice],
        reads: list[PhantomRead],
        unsupported: list[UnsupportedCall],
        notes: list[str],
    ) -> Phantom:
        """The GPU's entry in the header of a trace."""
        return {
            "engine": engine,
            "gpu": machine.gpu,
            "is_checked": machine.is_checked,
            "ended": "done" if is_over and self.ended == "unknown" else self.ended,
            "error": self.error,
            "devices": devices,
            "reads": reads,
            "unsupported": unsupported,
            "notes": notes,
            "has_fake_tensors": self.has_fake_tensors,
        }


#: What torch says when CUDA or one of its libraries finds no room for what it needs itself.
_NO_ROOM = re.compile(r"CUDA error: out of memory|STATUS_(\w+_)?ALLOC(ATION)?_FAILED")
#: Escape sequences for colours and styles.
_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def outcome_of(error: BaseException) -> tuple[PhantomEnd, str]:
    """The kind of end and the error text of a program that raised."""
    if isinstance(error, EnoughSteps):
        return "steps", ""
    if isinstance(error, SystemExit):
        if error.code in (None, 0):
            return "done", ""
        return "failed", f"exit status {error.code}"
    text = f"{type(error).__name__}: {_sentence(str(error))}".removesuffix(": ")
    cause: BaseException | None = error
    while cause is not None:
        if type(cause).__name__ == "OutOfMemoryError" or _NO_ROOM.search(str(cause)):
            return "out_of_memory", text
        cause = cause.__cause__ or cause.__context__
    return "failed", text


def _sentence(message: str) -> str:
    """The line of an error message that says what failed, without escape sequences."""
    lines = [line for line in map(str.strip, _STYLE.sub("", message).splitlines()) if line]
    # `torch.multiprocessing` quotes the child's traceback, whose last line is the error.
    has_traceback = "Traceback (most recent call last):" in lines
    return lines[-1 if has_traceback else 0] if lines else ""
