"""What is hard to follow with fake tensors, against torch's own allocator on a phantom GPU.

All cases of `fake_cases.py` run in two processes, one for each engine. What is alive must be the
same to the byte, and the peak within a tenth of a MiB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import fake_cases
import pytest
from support.phantoms import needs_cuda_build

pytestmark = needs_cuda_build

CASES = Path(fake_cases.__file__)

# WRONG: fake tensors count the distinct rows of a sparse gradient as one, and leave out what the
# kernels of sparse tensors allocate inside. The phantom counts the rows.
TOLERANCE = {"sparse_gradients": 2 * fake_cases.MIB}


def is_left_out(name: str) -> bool:
    """Whether this version of torch has what the case needs."""
    import torch

    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    return name in fake_cases.LATER_THAN and version < fake_cases.LATER_THAN[name]


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, Any]]:
    """What both engines found; they run side by side."""
    wanted = [name for name in fake_cases.CASES if not is_left_out(name)]
    running = {
        engine: subprocess.Popen(
            [sys.executable, str(CASES), engine, *wanted],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )
        for engine in ("phantom", "fake")
    }
    answers = {}
    for engine, process in running.items():
        out, errors = process.communicate(timeout=600)
        assert process.returncode == 0, f"{engine}: {errors[-3000:]}"
        answers[engine] = json.loads(out.splitlines()[-1])
    return answers


@pytest.mark.parametrize("name", fake_cases.CASES)
def test_a_fake_program_has_what_a_real_one_has(name: str, found: dict[str, Any]) -> None:
    if is_left_out(name):
        pytest.skip("this version of torch cannot run it")
    truth, fake = found["phantom"][name], found["fake"][name]
    assert "error" not in truth, truth["error"]
    assert "error" not in fake, fake["error"]
    assert len(truth["alive"]) > 0
    assert fake["alive"] == truth["alive"]
    assert fake["after"] == truth["after"]
    assert abs(fake["peak"] - truth["peak"]) <= TOLERANCE.get(name, fake_cases.MIB // 10)
