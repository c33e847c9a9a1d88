"""A program that records itself and takes a step on command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.programs import PATIENCE

_SOURCE = """
import sys
import floodmark
import torch

kept = []
with floodmark.trace(sys.argv[1], devices="cpu"):
    print("ready", flush=True)
    for line in sys.stdin:
        kept.append(torch.ones(int(line), dtype=torch.uint8))
        floodmark.step()
        print("done", flush=True)
"""


class Growing:
    """`take` allocates this many bytes and ends a step; the recording goes on."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "growing.flood"
        script = folder / "growing.py"
        script.write_text(_SOURCE)
        self.process = subprocess.Popen(
            [sys.executable, script, self.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._hear("ready")

    def _hear(self, word: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == word

    def take(self, count: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        self._hear("done")

    def end(self) -> None:
        """Let the recording end as it should."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(PATIENCE) == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.kill()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
