"""`floodmark fit` with several values: the frontier of what fits."""

from __future__ import annotations

import json

from support.answer_schema import check_answer
from support.phantoms import needs_cuda_build

pytestmark = needs_cuda_build

#: One tensor: 8 MiB for each token, four times as much without checkpointing.
PROGRAM = """
    import sys
    import torch

    batch, length, checkpointed = map(int, sys.argv[1:])
    tokens = batch * length * (1 if checkpointed else 4)
    torch.empty(tokens << 23, dtype=torch.uint8, device="cuda")
"""
FIT = ("fit", "--gpu", "t4", "--memory", "1GiB")
VARY = ("--vary", "B=1..32", "--vary", "S=1,2,4", "--vary", "C=0,1")
RUN = ("p.py", "{B}", "{S}", "{C}")


def test_the_frontier_has_the_largest_of_every_combination(programs):
    programs.write(PROGRAM, "p.py")
    programs.environment["XDG_CACHE_HOME"] = str(programs.folder / "cache")
    done = programs.floodmark(*FIT, *VARY, "--json", *RUN)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    check_answer("fit", found)
    # 1 GiB has 864 MiB beside the CUDA context: 108 tokens of 8 MiB.
    frontier = {(s, c): b for b, s, c in (point["values"] for point in found["frontier"])}
    assert frontier == {(1, 0): 27, (2, 0): 13, (4, 0): 6, (1, 1): 32, (2, 1): 32, (4, 1): 27}
    assert found["objective"] == "B*S"
    assert found["best"] == [27, 4, 1]
    assert found["assumptions"][2] == "what the program needs shrinks from the first to the last C"
    assert len(found["tries"]) < 40
    # What is known is not tried again, whatever the objective.
    again = programs.floodmark(*FIT, *VARY, "--objective", "B*S*(2-C)", *RUN)
    assert again.returncode == 0, again.stderr
    # 27 tokens count twice without checkpointing, and 108 count once with it.
    assert again.stdout.startswith("B = 27, S = 4, C = 1 fits on Tesla T4, in the whole run, with ")
    assert "They assume that:" in again.stdout


def test_wrong_names_are_errors_of_the_user(programs):
    programs.write(PROGRAM, "p.py")
    done = programs.floodmark(*FIT, *VARY, "--objective", "B*T", *RUN)
    assert done.returncode == 1
    assert "`T` is not varied" in done.stderr
    assert "hint: use the names of `--vary`" in done.stderr
    done = programs.floodmark(*FIT, "--vary", "B=1..2", "--vary", "B=3..4", "p.py", "{B}")
    assert done.returncode == 1
    assert "`B` is varied twice" in done.stderr
