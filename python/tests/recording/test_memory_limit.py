"""What the recorder holds stays below `max_memory`, and what it leaves out is in the trace."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest
from support.checkout import ROOT

import floodmark

BENCH = ROOT / "bench" / "recorder_memory.py"
MIB = 1 << 20


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """What the recorder holds in each case at the least limit."""
    folder = tmp_path_factory.mktemp("results")
    command = [sys.executable, str(BENCH), "--limits", "16", "--results", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    rows = json.loads((folder / "recorder-memory.json").read_text())["rows"]
    return {row["case"]: row["held"]["16"] for row in rows}


LOSSES = {
    "functions": "allocations have no stack",
    "names of phases": "events miss the name",
    "live threads": "events are of threads that share one number",
    "live tensors": None,
    "events": None,
}


@pytest.mark.parametrize("case", LOSSES)
def test_the_recorder_states_what_its_limit_leaves_out(held, case):
    found, loss = held[case], LOSSES[case]
    # The figure is a difference of two processes, whose own heaps differ by megabytes.
    assert found["bytes"] <= 32 * MIB
    assert not found["failure"]
    assert [loss in said for said in found["losses"]] == ([True] if loss else [])


@pytest.mark.slow
@pytest.mark.parametrize("case", LOSSES)
def test_the_recorder_holds_no_more_than_its_limit(held, case):
    assert held[case]["bytes"] <= 16 * MIB


def test_a_limit_that_is_too_small_is_refused():
    with pytest.raises(ValueError, match="at least 16MiB"):
        floodmark.trace(max_memory="15MiB")
    with floodmark.trace(max_memory="16MiB"):
        assert floodmark.is_recording()


#: Threads that are all alive, and free what another one has allocated. Then it kills itself.
CROWD = """
import os, queue, signal, threading
import torch, floodmark

handed = queue.SimpleQueue()
barrier = threading.Barrier(100)

def work(number):
    torch.empty(1)
    barrier.wait()
    for turn in range(60):
        handed.put(torch.empty(100_000 + number * 60 + turn, dtype=torch.uint8))
        handed.get()
    barrier.wait()

floodmark.start("crowd.flood", max_memory="16MiB")
workers = [threading.Thread(target=work, args=(number,)) for number in range(100)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_threads_that_share_a_buffer_lose_no_event(programs):
    script = programs.write(CROWD)
    killed = subprocess.run([sys.executable, str(script)], cwd=programs.folder, timeout=300)
    assert killed.returncode == -signal.SIGKILL
    trace = floodmark.Trace.open(programs.folder / "crowd.flood")
    wanted = range(100_000, 106_000)
    lives = [life for life in trace.lifetimes("cpu") if life["bytes"] in wanted]
    assert sorted(life["bytes"] for life in lives) == list(wanted)
    assert all(life["freed_seconds"] is not None for life in lives)
    shared = [loss for loss in trace.summary()["losses"] if "share one number" in loss]
    assert len(shared) == 1
