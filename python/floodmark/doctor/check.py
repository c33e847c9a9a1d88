"""The result of one check, without the user's home folder, so that it can be shared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Status = Literal["ok", "note", "failed"]


@dataclass(frozen=True)
class Check:
    """One row of the answer: `DoctorCheck` of the schema."""

    name: str
    status: Status
    result: str
    hint: str | None = None

    def to_dict(self) -> dict[str, str]:
        """The row as JSON, without the name of the user's home folder."""
        row = {"name": self.name, "status": self.status, "result": without_home(self.result)}
        return row if self.hint is None else {**row, "hint": without_home(self.hint)}


def without_home(text: str) -> str:
    """The text with `~` for the home folder."""
    try:
        home = str(Path.home())
    except RuntimeError:
        # Without a home folder there is nothing to replace.
        return text
    return text if home == "/" else text.replace(home, "~")


def shown_bytes(count: int) -> str:
    """`36.3 KiB`, `65.0 MiB`."""
    return f"{count / 2**10:.1f} KiB" if count < 2**20 else f"{count / 2**20:.1f} MiB"


def last_line(text: str) -> str:
    """The last line that is not empty: in a traceback, the error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
