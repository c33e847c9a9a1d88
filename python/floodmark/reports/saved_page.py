"""The page of a trace in a notebook.

Talks to: `Trace.export`, which makes the page of `floodmark view` as one file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from floodmark.reports.trace import Trace


class Exported(Protocol):
    """A trace or a recording."""

    def export(self, path: str | os.PathLike[str], to: str | None = None) -> None:
        """Write the format `to` to a path."""


class SavedPage:
    """The page of a trace. A notebook shows it in a frame, without a server.

    `html` is the whole page, about one to eight megabytes; the notebook stores it with its outputs.
    """

    def __init__(self, page: str, height: int) -> None:
        self.html = page
        self.height = height

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, which opens in a browser."""
        Path(path).write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        import html

        return (
            f'<iframe srcdoc="{html.escape(self.html)}" sandbox="allow-scripts allow-downloads"'
            f' style="width: 100%; height: {self.height}px; border: 1px solid #ccc"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<the page of a trace, {len(self.html):,} characters; save(path) writes it>"


def view(trace: Exported | str | os.PathLike[str], *, height: int = 640) -> SavedPage:
    """The page of a trace, a recording or a file, as the last value of a notebook's cell.

    `height` is that of its frame, in pixels. On a command line, `floodmark view` opens the page in
    the browser.
    """
    import tempfile

    found = Trace.open(trace) if isinstance(trace, (str, os.PathLike)) else trace
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "page.html")
        found.export(path, "html")
        return SavedPage(path.read_text(encoding="utf-8"), height)
