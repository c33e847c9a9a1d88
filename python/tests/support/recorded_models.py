"""Models that an H200 recorded, beside the same on a simulated one."""

from __future__ import annotations

import gzip
import json
import pickle
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pytest

from support.checkout import FIXTURES
from support.phantoms import needs_cuda_build


def _has(package: str, wanted: str) -> bool:
    try:
        return version(package).split("+")[0] == wanted
    except PackageNotFoundError:
        return False


needs_recorded_versions = [
    needs_cuda_build,
    pytest.mark.skipif(
        not (
            _has("torch", "2.11.0")
            and _has("transformers", "5.17.0")
            and _has("torchvision", "0.26.0")
        ),
        reason="the recordings are of other versions",
    ),
]


def recorded(name: str) -> tuple[dict[str, Any], list[int]]:
    """What the H200 measured, and the sizes of its allocations."""
    folder = FIXTURES / "recordings" / "zoo"
    figures = json.loads((folder / f"{name}.json").read_text())
    with gzip.open(folder / f"{name}.pickle.gz") as file:
        traces = pickle.load(file)["device_traces"]
    sizes = [e["size"] for trace in traces for e in trace if e["action"] == "alloc"]
    for step in figures["steps"]:
        del step["time"]
    return figures, sizes


def estimated(name: str, first: int, how: str = "--phantom") -> dict[str, Any]:
    """The same on a phantom."""
    script = FIXTURES / "zoo" / "measure.py"
    done = subprocess.run(
        [sys.executable, str(script), name, str(first), how],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def both(name: str, how: str = "--phantom") -> tuple[dict[str, Any], list[int], dict[str, Any]]:
    truth, sizes = recorded(name)
    # On the recording's machine a library allocated a number when it was imported.
    first = sizes[0] if sizes[0] <= 4 else 0
    return truth, sizes, estimated(name, first, how)


def peak(figures: dict[str, Any]) -> int:
    phases = [p for step in figures["steps"] for p in step.values() if isinstance(p, dict)]
    return max(phase["peak"] for phase in phases)
