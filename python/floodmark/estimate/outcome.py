"""How a program on a simulated GPU ended, and what its trace says of the GPU.

Sees: an exception or an exit status. Knows nothing of engines, nor of who ran the program.
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
        #: Whether the program had blocks of fake tensors, which this GPU does not allocate.
        self.has_fake_tensors = False

    def end(self, error: BaseException | None) -> None:
        """How the block ended; what comes after enough steps is no end of its own."""
        if self.ended != "steps":
            self.ended, self.error = ("done", "") if error is None else outcome_of(error)

    def end_by_steps(self) -> None:
        """The program was stopped after enough steps, whatever it does from here on."""
        if self.ended == "unknown":
            self.ended = "steps"

    def leave(self, status: int) -> None:
        """The process leaves with an exit status, and nothing else is known of its end."""
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
        """What the header of a trace says of the GPU."""
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


#: What a terminal takes as a colour or a style.
_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def outcome_of(error: BaseException) -> tuple[PhantomEnd, str]:
    """How a program that raised ended, and what it died of."""
    if isinstance(error, EnoughSteps):
        return "steps", ""
    if isinstance(error, SystemExit):
        if error.code in (None, 0):
            return "done", ""
        return "failed", f"exit status {error.code}"
    text = f"{type(error).__name__}: {_sentence(str(error))}".removesuffix(": ")
    cause: BaseException | None = error
    while cause is not None:
        if type(cause).__name__ == "OutOfMemoryError":
            return "out_of_memory", text
        cause = cause.__cause__ or cause.__context__
    return "failed", text


def _sentence(message: str) -> str:
    """The line of an error's message that says what failed, without colours of a terminal."""
    lines = [line for line in map(str.strip, _STYLE.sub("", message).splitlines()) if line]
    # `torch.multiprocessing` quotes the traceback of the child, which ends with the child's error.
    has_traceback = "Traceback (most recent call last):" in lines
    return lines[-1 if has_traceback else 0] if lines else ""
