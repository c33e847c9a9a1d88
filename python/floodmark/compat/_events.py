"""The events of a recording, one by one.

A trace's reports say what was there at a moment; some tools want the way there. Talks to: the
program's own `export`, in a process of its own, since it is a command and not a report. Sees what
that writes, and reads it without running it.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

from floodmark._core import FloodmarkError


class _Data(pickle.Unpickler):
    """Lists, dictionaries, text and numbers; nothing is imported, so nothing can be called."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"`{module}.{name}` is not data")


def events_of(path: os.PathLike[str], device: str) -> list[dict[str, Any]]:
    """What happened on a device, in order, as entries of torch's history have it.

    `size` is what was asked for. `action` is `alloc`, `free_requested`, `free_completed`,
    `segment_alloc`, `segment_free`, `segment_map`, `segment_unmap`, `oom` or `snapshot`.
    """
    return history_of(path, device)[0]


def history_of(
    path: os.PathLike[str], device: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The events, and the beginnings and ends of phases (`stage`, `name`, `time_us`)."""
    with tempfile.TemporaryDirectory(prefix="floodmark-") as folder:
        written = Path(folder, "events.pickle")
        words = ["export", os.fspath(path), "--to", "torch-snapshot", "--device", device]
        # The same floodmark, wherever it was imported from.
        here = str(Path(__file__).parents[2])
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
        }
        done = subprocess.run(
            [sys.executable, "-m", "floodmark", *words, "-o", str(written)],
            capture_output=True,
            text=True,
            env=environment,
        )
        if done.returncode != 0:
            raise FloodmarkError(done.stderr.strip())
        with open(written, "rb") as file:
            found = _Data(file).load()
    events = [entry for trace in found["device_traces"] for entry in trace]
    return events, list(found["external_annotations"])
