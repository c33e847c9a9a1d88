"""Programs that a test writes and runs in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

#: What a launcher would set: a test must not inherit it.
_OF_LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK")


#: Seconds that a state may take to come, also on a busy machine. It only ends a test that hangs.
PATIENCE = 600


class Programs:
    """Runs Python programs in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        environment = {key: value for key, value in os.environ.items() if key not in _OF_LAUNCHERS}
        self.environment = {**environment, "PYTHONUNBUFFERED": "1"}

    def write(self, source: str, name: str = "program.py") -> Path:
        """A file with this source."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
        return path

    def python(self, *words: str, **more: object) -> subprocess.CompletedProcess[str]:
        """`python WORDS…`."""
        environment = {**self.environment, **more.pop("env", {})}
        options = {
            "capture_output": True,
            "text": True,
            "timeout": PATIENCE,
            "cwd": self.folder,
            **more,
        }
        return subprocess.run([sys.executable, *map(str, words)], env=environment, **options)

    def floodmark(self, *words: str, **more: object) -> subprocess.CompletedProcess[str]:
        """`floodmark WORDS…`."""
        return self.python("-m", "floodmark", *words, **more)

    def run(self, source: str, *words: str, **more: object) -> subprocess.CompletedProcess[str]:
        """Runs a source with plain Python; it must succeed."""
        done = self.python(self.write(source), *words, **more)
        assert done.returncode == 0, done.stderr
        return done
