"""Recurrent networks on a simulated H200: every allocation is that of a real one; with fake tensors
the peak comes near.

`fixtures/rnn/programs.jsonl` has programs of `bench/fixtures/rnn_programs.py` with what they
allocated on an H200; `bench/fixtures/rnn_sizes.py` compares all of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import torch
from support.checkout import ROOT
from support.phantoms import needs_cuda_build

RECORDED = ROOT / "fixtures" / "rnn" / "programs.jsonl"

#: All programs in one process, one after the other, as they were recorded.
PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
import floodmark
import rnn_programs

with floodmark.phantom("h200"):
    programs = [json.loads(line)["program"] for line in open(sys.argv[2])]
    print(json.dumps(rnn_programs.run_all(programs)))
"""

#: The same programs with fake tensors: their peaks.
WITH_FAKE_TENSORS = """
import json, sys
sys.path.insert(0, sys.argv[1])
import floodmark
import rnn_programs

peaks = []
for line in open(sys.argv[2]):
    program = json.loads(line)["program"]
    if program["mode"] == "train" and not program["dropout"]:
        with floodmark.estimate(engine="fake", gpu="h200") as estimate:
            rnn_programs.train(program)
            peaks.append(estimate.level("cuda")[1])
print(json.dumps(peaks))
"""


def printed_by(program: str) -> Any:
    paths = (ROOT / "bench" / "fixtures", RECORDED)
    command = [sys.executable, "-W", "ignore", "-c", program, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(
    not torch.__version__.startswith("2.11"), reason="the recording is of torch 2.11"
)
@needs_cuda_build
def test_recurrent_networks_allocate_what_they_do_on_an_h200() -> None:
    recorded: list[dict[str, Any]] = [json.loads(line) for line in RECORDED.open()]
    found = printed_by(PROGRAM)
    assert len(found) == len(recorded) > 25
    for real, estimate in zip(recorded, found, strict=True):
        program = real.pop("program")
        assert estimate == real, program


def test_fake_tensors_come_near_to_an_h200() -> None:
    recorded: list[dict[str, Any]] = [json.loads(line) for line in RECORDED.open()]
    trained = [
        real
        for real in recorded
        if real["program"]["mode"] == "train" and not real["program"]["dropout"]
    ]
    peaks = printed_by(WITH_FAKE_TENSORS)
    assert len(trained) > 15
    for real, peak in zip(trained, peaks, strict=True):
        # Small networks: two MiB are what the order of allocations in backward may make.
        most = max(real["peak"] // 100, 2 << 20)
        assert abs(peak - real["peak"]) <= most, (real["program"], peak, real["peak"])
