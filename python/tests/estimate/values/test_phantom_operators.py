"""No operator that is run again on the host leaves the memory of its arguments.

`operator_audit.py` calls torch's operators with a guard page behind each copy; it dies where one
is touched. The tests share a process among many operators.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from support.checkout import PROGRAMS

pytestmark = pytest.mark.skipif(torch.version.cuda is None, reason="torch has no CUDA in it")

#: The least copies on the host for an operator, on average: the calls are followed at all.
COPIES = 5


def audit(every: int, first: int, samples: int) -> dict[str, int]:
    """Audit every so-manieth operator; what was called, or a failure that names the last one."""
    pytest.importorskip("expecttest", reason="torch's operator database needs expecttest")
    program = PROGRAMS / "operator_audit.py"
    command = [sys.executable, str(program), *map(str, (every, first, samples))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    last = done.stdout.splitlines()[-1] if done.stdout else ""
    assert done.returncode == 0, f"status {done.returncode} at {last}: {done.stderr[-2000:]}"
    found: dict[str, int] = json.loads(last)
    return found


def test_a_seventh_of_all_operators_stay_in_their_memory() -> None:
    found = audit(every=7, first=0, samples=1)
    assert found["operators"] >= 80
    assert found["copies"] > COPIES * found["operators"]


@pytest.mark.slow
@pytest.mark.parametrize("first", range(4))
def test_all_operators_stay_in_their_memory(first: int) -> None:
    found = audit(every=4, first=first, samples=2)
    assert found["operators"] >= 150
    assert found["copies"] > COPIES * found["operators"]


def test_the_guard_behind_a_copy_ends_a_process_that_touches_it() -> None:
    code = """
import sys; sys.argv = ["audit", "1", "0", "0"]
import operator_audit, torch, ctypes
tensor = operator_audit.guarded((3, 5), torch.float32)
print(tensor.fill_(1).sum().item(), flush=True)
ctypes.memset(tensor.data_ptr() + 60, 0, 1)
print("reached")
"""
    pytest.importorskip("expecttest", reason="torch's operator database needs expecttest")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=PROGRAMS
    )
    assert (done.returncode, done.stdout) == (-11, "15.0\n")
