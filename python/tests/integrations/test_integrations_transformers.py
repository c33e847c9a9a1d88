"""The callback for the `Trainer` of transformers, in its own loop, on a simulated GPU."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from support.phantoms import needs_cuda_build

import floodmark

pytestmark = [
    needs_cuda_build,
    pytest.mark.skipif(not find_spec("transformers"), reason="needs transformers"),
    pytest.mark.skipif(not find_spec("accelerate"), reason="its Trainer needs accelerate"),
]

NAMES = ("peak", "allocated", "reserved_peak", "reserved")


@pytest.fixture
def done(loops):
    return loops.of("transformers")


def figures(entry, prefix=""):
    return [entry[f"{prefix}memory/cuda0/{name}"] for name in NAMES]


def test_every_step_is_what_torch_counts(done):
    _, found, _ = done
    steps = found["one"]["steps"]
    history = [entry for entry in found["one"]["history"] if "loss" in entry]
    assert [figures(entry) for entry in history] == steps
    assert len({peak for peak, *_ in steps}) > 2


def test_reporters_get_what_the_history_gets(done):
    _, found, _ = done
    reported = [entry for entry in found["one"]["reported"] if "loss" in entry]
    assert [figures(entry) for entry in reported] == found["one"]["steps"]


def test_an_evaluation_has_figures_of_its_own(done):
    _, found, _ = done
    (entry,) = [entry for entry in found["one"]["history"] if "eval_loss" in entry]
    assert figures(entry, "eval_")[0] == max(peak for peak, *_ in found["one"]["batches"])
    assert "memory/cuda0/peak" not in entry


def test_between_two_entries_no_peak_is_missed(done):
    _, found, _ = done
    steps = found["rare"]["steps"]
    history = [entry for entry in found["rare"]["history"] if "loss" in entry]
    assert len(steps) == 4
    pairs = [steps[:2], steps[2:]]
    assert [figures(entry)[0] for entry in history] == [max(p[0] for p in pair) for pair in pairs]
    assert [figures(entry)[1] for entry in history] == [pair[-1][1] for pair in pairs]


def test_only_requested_steps_are_recorded(done):
    folder, found, _ = done
    history = [entry for entry in found["some"] if "loss" in entry]
    assert ["memory/cuda0/peak" in entry for entry in history] == [False, True, True, False]
    assert floodmark.Trace.open(folder / "some" / "memory.flood").summary()["steps"] == 2


def test_an_evaluation_alone_is_part_of_a_recording_that_runs(done):
    folder, *_ = done
    assert floodmark.Trace.open(folder / "alone.flood").summary()["steps"] == 2


def test_the_end_is_summed_up_and_the_trace_lies_in_the_output(done):
    folder, _, said = done
    trace = floodmark.Trace.open(folder / "one" / "memory.flood")
    assert trace.summary()["steps"] == 6
    assert str(trace).strip() in said


def test_out_of_memory_is_explained_at_the_end_of_the_program(loops):
    said = loops.result.stderr
    assert loops.result.returncode == 1
    assert floodmark.Trace.open(loops.folder / "hungry" / "memory.flood").oom().requested == 1 << 42
    at = said.index("OutOfMemoryError")
    assert "Out of memory on cuda:0: 4.000 TiB requested at " in said[at:]
    assert not (loops.folder / "hungry" / "memory.flood.journal").exists()
