"""A plan for a program on a GPU with a share of the memory that the program needs.

Talks to: `floodmark estimate` and `floodmark plan`, with the Python that runs this.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: The first step allocates the optimizer's states, the second has them.
STEPS = 2


def floodmark(*words: str) -> subprocess.CompletedProcess[str]:
    """Run floodmark in the root of the repository."""
    command = [sys.executable, "-m", "floodmark", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def estimate(gpu: str, *words: str) -> dict[str, Any]:
    """The estimate of a program."""
    with tempfile.TemporaryDirectory() as traces:
        output = ("--json", "--quiet", "-o", str(Path(traces) / "unchanged.flood"))
        done = floodmark("estimate", *output, "--gpu", gpu, "--steps", str(STEPS), *words)
    if not done.stdout:
        raise RuntimeError(f"no estimate\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def plan(gpu: str, *words: str, memory: int | None = None) -> dict[str, Any]:
    """A plan without a cache, with its seconds: `seconds`, and of all processes `cpu_seconds`."""
    limit = () if memory is None else ("--memory", str(memory))
    began, used = time.monotonic(), _cpu_seconds()
    words = ("--gpu", gpu, "--steps", str(STEPS), *limit, *words)
    done = floodmark("plan", "--json", "--no-cache", *words)
    if not done.stdout:
        raise RuntimeError(f"no plan\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout)
    found["seconds"] = round(time.monotonic() - began, 1)
    found["cpu_seconds"] = round(_cpu_seconds() - used, 1)
    return found


def plan_at_share(share: float, gpu: str, *words: str) -> dict[str, Any]:
    """A plan with this share of the program's reserved bytes, plus all its memory outside torch."""
    device = estimate(gpu, *words)["devices"][0]
    memory = int(share * device["peak_reserved"]) + device["outside_torch"]
    return plan(gpu, *words, memory=memory)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
