"""The tracker for accelerate, in a loop of accelerate's, on a simulated GPU."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest
from support.phantoms import needs_cuda_build

import floodmark

pytestmark = [
    needs_cuda_build,
    pytest.mark.skipif(not find_spec("accelerate"), reason="needs accelerate"),
]

NAMES = ("peak", "allocated", "reserved_peak", "reserved")


@pytest.fixture
def done(loops):
    return loops.of("accelerate")


def lines(folder):
    return [json.loads(line) for line in (folder / "memory.jsonl").read_text().splitlines()]


def figures(metrics):
    return [metrics[f"memory/cuda0/{name}"] for name in NAMES]


def test_every_step_is_what_torch_counts(done):
    folder, found, _ = done
    config, *steps = lines(folder / "run")
    assert config == {"config": {"width": 512}}
    assert [step["step"] for step in steps] == [0, 1, 2, 3]
    # Between a step and the next one, `zero_grad` and the loop's own lines belong to the next.
    assert [figures(step["memory"]) for step in steps] == found["steps"]
    assert len({peak for peak, *_ in found["steps"]}) == 4


def test_other_trackers_get_the_same_where_the_program_says_so(done):
    _, found, _ = done
    assert [figures(values) for values in found["others"]] == found["steps"]
    assert [values["number"] for values in found["others"]] == [1, 3, 5, 7]


def test_the_recording_ends_with_the_training_and_is_summed_up(done):
    folder, found, said = done
    trace = floodmark.Trace.open(folder / "run" / "memory.flood")
    assert found["is_over"]
    assert trace.summary()["steps"] == 4
    assert found["peak"] == max(peak for peak, *_ in found["steps"])
    assert str(trace).strip() in said


def test_without_an_optimizer_each_log_ends_a_step(done):
    folder, found, _ = done
    assert [figures(line["memory"])[:2] for line in lines(folder / "alone")] == [
        row[:2] for row in found["alone"]
    ]
    assert floodmark.Trace.open(folder / "alone" / "memory.flood").summary()["steps"] == 3
