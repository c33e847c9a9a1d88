"""Where a program read a value that is not known, and what was answered.

Sees: frames and the user's own answers (`--answer`). Knows nothing of how values are worked out.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from floodmark.estimate.values.answers import given_at
from floodmark.estimate.values.host_copies import ASSUMED, KNOWN, NOTHING

#: Where C++ reads a value in a backward pass, no Python frame is the program's.
_NO_FILE = "(none)"


class Reads:
    """The lines that read values which are not known."""

    def __init__(
        self, torch: ModuleType, generated: str, answers: dict[tuple[str, int], float]
    ) -> None:
        """`generated` is the folder of code that compilers write: it is none of the program's."""
        self._answers = answers
        self._reads: dict[tuple[str, int, str], dict[str, Any]] = {}
        #: Regions whose count was listed with a line. A backward pass counts the same again.
        self._counted: set[tuple[int, int]] = set()
        folders = (Path(str(torch.__file__)).parent, Path(__file__).parents[2], Path(generated))
        self._skipped = tuple(str(folder) + os.sep for folder in folders)

    def all(self) -> list[dict[str, Any]]:
        """Every read: where, how often, and what was answered."""
        return sorted(self._reads.values(), key=lambda read: (-read["count"], read["file"]))

    def note(
        self, name: str, surety: int, answered: Any, counted: tuple[int, int] | None = None
    ) -> float | None:
        """List a read. The value that the user gave for this line, if there is one.

        `answered` is called for its text. `counted` is the region whose elements were counted."""
        here, given = self._line()
        if surety == KNOWN and given is None:
            return None
        if here is None and counted in self._counted:
            return None
        if counted is not None:
            self._counted.add(counted)
        file, line, function = _NO_FILE, 0, ""
        if here is not None:
            code = here.f_code
            file, line, function = code.co_filename, here.f_lineno, code.co_name
        read = self._reads.setdefault(
            (file, line, name),
            {"file": file, "line": line, "function": function, "op": name, "count": 0},
        )
        read["count"] += 1
        read["assumed"] = f"{given:g} (--answer)" if given is not None else answered()
        read["reason"] = _why(surety)
        return given

    def _line(self) -> tuple[FrameType | None, float | None]:
        """The program's innermost frame, and what the user said of it or of one outside it."""
        frame: FrameType | None = sys._getframe(1)
        here = None
        given = None
        while frame is not None:
            file = frame.f_code.co_filename
            if not file.startswith(self._skipped) and not file.startswith("<"):
                here = here or frame
                if given is None:
                    given = given_at(self._answers, file, frame.f_lineno)
            frame = frame.f_back
        return here, given


def _why(surety: int) -> str:
    if surety == NOTHING:
        return "not computed"
    if surety == ASSUMED:
        return "rests on values that were not computed and count as zero"
    return "rests on random numbers"
