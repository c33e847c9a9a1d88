"""Loops of other libraries, run once for all tests that look at what came of them."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from support.checkout import PROGRAMS
from support.programs import Programs

#: Each with the libraries of which it needs one; the one that fails in the end is the last.
NEEDS = {
    "accelerate": ("accelerate",),
    "lightning": ("lightning", "pytorch_lightning"),
    "transformers": ("transformers",),
}


class Loops:
    """What the loops found: of each a folder, what it found, and what was said on stderr."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        programs = Programs(folder)
        names = [name for name, needs in NEEDS.items() if any(map(find_spec, needs))]
        if not find_spec("accelerate"):
            names = [name for name in names if name != "transformers"]
        self.result = programs.python(PROGRAMS / "loops" / "run.py", *names)

    def of(self, name: str) -> tuple[Path, dict[str, Any], str]:
        """What came of one loop."""
        folder = self.folder / name
        assert (folder / "found.json").exists(), self.result.stderr
        said = (folder / "said.txt").read_text()
        found = json.loads((folder / "found.json").read_text())
        assert found is not None, said
        return folder, found, said
