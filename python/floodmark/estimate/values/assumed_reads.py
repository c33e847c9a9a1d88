"""The lines at which a program read values that were not computed, with the assumed values.

Sees: frames and the user's own answers (`--answer`). Knows nothing of how values are computed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from floodmark import own_code

if TYPE_CHECKING:
    from floodmark.reports.answer_types import PhantomRead


class AssumedReads:
    """The lines that read values which were not computed."""

    def __init__(
        self, torch: Any, answers: Sequence[tuple[str, int, float]], *generated: str
    ) -> None:
        """`generated` are folders with code of compilers, which does not belong to the program."""
        self._answers = answers
        self._reads: dict[tuple[str, int, str], PhantomRead] = {}
        folders = (Path(str(torch.__file__)).parent, *generated)
        self._skipped = (*own_code.FOLDERS, *(f"{folder}{os.sep}" for folder in folders), "<")

    def all(self) -> list[PhantomRead]:
        """Every read with its line, count and assumed value, the most frequent first."""
        return sorted(self._reads.values(), key=lambda read: (-read["count"], read["file"]))

    def line(self) -> tuple[FrameType | None, float | None]:
        """The program's innermost frame, and the user's value for it or for a frame outside it."""
        frame: FrameType | None = sys._getframe(1)
        here = None
        while frame is not None:
            file = frame.f_code.co_filename
            if not file.startswith(self._skipped):
                here = here or frame
                given = self._given_at(file, frame.f_lineno)
                if given is not None or not self._answers:
                    return here, given
            frame = frame.f_back
        return here, None

    def add(self, here: FrameType | None, op: str, assumed: str, reason: str) -> None:
        """List a read of the frame `here`; None for C++ in a backward pass."""
        file, line, function = "", 0, ""
        if here is not None:
            code = here.f_code
            file, line, function = code.co_filename, here.f_lineno, code.co_name
        read = self._reads.setdefault(
            (file, line, op),
            {
                "file": file,
                "line": line,
                "function": function,
                "op": op,
                "count": 0,
                "assumed": assumed,
                "reason": reason,
            },
        )
        read["count"] += 1
        read["assumed"] = assumed
        read["reason"] = reason

    def _given_at(self, file: str, line: int) -> float | None:
        for name, number, value in self._answers:
            if number == line and (file == name or file.endswith("/" + name.lstrip("./"))):
                return value
        return None


def number_of(torch: Any, dtype: Any, value: float) -> Any:
    """The Python number that `item()` returns for `value` with element type `dtype`."""
    if dtype == torch.bool:
        return bool(value)
    if dtype.is_complex:
        return complex(value)
    return float(value) if dtype.is_floating_point else int(value)
