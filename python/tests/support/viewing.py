"""`floodmark view` as a process, and its answers."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.programs import PATIENCE


@contextmanager
def viewing(*words: str | Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A viewer and its address."""
    command = [sys.executable, "-m", "floodmark", "view", "--no-open", *map(str, words)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as viewer:
        try:
            assert viewer.stdout is not None
            yield viewer, viewer.stdout.readline().strip()
        finally:
            viewer.kill()


def opened(address: str, request: str) -> Any:
    # Requests to loopback use no proxy of the environment.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return opener.open(f"{address}api/{request}", timeout=PATIENCE)


def answer(address: str, request: str) -> Any:
    with opened(address, request) as response:
        return json.load(response)
