"""Wrong calls of CUDA on a simulated GPU: the codes of a real one, and never a signal.

`fixtures/cuda_errors.json` has what an H200 answered to each call of `wrong_calls.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import wrong_calls
from support.checkout import FIXTURES, PROGRAMS
from support.phantoms import needs_cuda_build

pytestmark = needs_cuda_build

RECORDED = FIXTURES / "cuda_errors.json"
INVALID_VALUE = 1

#: All calls in one process, whose death would be a failure by itself.
PROGRAM = """
import ctypes, json, sys
sys.path.insert(0, sys.argv[1])
import floodmark
import wrong_calls

with floodmark.phantom("h200"):
    phantom = ctypes.CDLL(None)
    for case in wrong_calls.CASES:
        print(json.dumps([case[0], wrong_calls.make(phantom, phantom, case)]), flush=True)
"""


def expected_of(recorded: dict[str, Any]) -> int:
    """The code of a real GPU; "invalid value" where it ended the program or broke the context."""
    if "signal" in recorded or "sync" in recorded:
        return INVALID_VALUE
    return int(recorded["code"])


def test_wrong_calls_get_the_codes_of_an_h200() -> None:
    recorded = json.loads(RECORDED.read_text())
    assert set(recorded) == {name for name, _, _ in wrong_calls.CASES}
    command = [sys.executable, "-c", PROGRAM, str(PROGRAMS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    answers = dict(json.loads(line) for line in done.stdout.splitlines())
    missing = [name for name, _, _ in wrong_calls.CASES if name not in answers]
    assert done.returncode == 0, (done.returncode, missing[:1], done.stderr[-2000:])
    functions = {name: function for name, function, _ in wrong_calls.CASES}
    wrong = []
    for name, answer in answers.items():
        code = expected_of(recorded[name])
        # Only the runtime remembers its last error.
        last = code if functions[name].startswith("cuda") else 0
        found = [answer[key] for key in ("code", "last", "sync", "later")]
        if found != [code, last, 0, 0]:
            wrong.append((name, found, code))
    assert not wrong


def test_wrong_calls_are_of_many_functions() -> None:
    assert len({function for _, function, _ in wrong_calls.CASES}) >= 40
