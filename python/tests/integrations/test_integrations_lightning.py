"""The callback for Lightning, in Lightning's own loops, on a simulated GPU."""

from __future__ import annotations

import csv
from importlib.util import find_spec

import pytest
from support.phantoms import needs_cuda_build

import floodmark

PACKAGES = [name for name in ("lightning", "pytorch_lightning") if find_spec(name)]

pytestmark = [
    needs_cuda_build,
    pytest.mark.skipif(not PACKAGES, reason="needs lightning or pytorch_lightning"),
]


@pytest.fixture
def done(loops):
    return loops.of("lightning")


def logged(folder, name, prefix=""):
    """What the logger got of the first GPU: by step, peak, end, reserved peak, reserved."""
    names = ("peak", "allocated", "reserved_peak", "reserved")
    columns = [f"{prefix}memory/cuda0/{key}" for key in names]
    with open(folder / name / "metrics.csv") as file:
        rows = [row for row in csv.DictReader(file) if row.get(columns[0])]
    return {int(row["step"]): [int(row[column]) for column in columns] for row in rows}


def test_every_step_is_what_torch_counts(done):
    folder, found, _ = done
    assert len(found["fit"]) == 6
    assert logged(folder, "fit") == dict(enumerate(found["fit"]))
    assert len({peak for peak, *_ in found["fit"]}) == 6


def test_a_validation_is_one_figure_of_its_own(done):
    folder, found, _ = done
    assert [row[0] for row in logged(folder, "fit", "validation_").values()] == [
        found["validation"]
    ]


def test_only_requested_and_complete_steps_are_recorded(done):
    folder, found, _ = done
    assert len(found["some"]) == 3, "six batches, two in a step"
    rows = logged(folder, "some")
    assert set(rows) == {1, 2}
    assert [rows[1][:2], rows[2][:2]] == [row[:2] for row in found["some"][1:]]
    assert floodmark.Trace.open(folder / "some" / "memory.flood").summary()["steps"] == 2


def test_loops_without_an_optimizer_have_steps_too(done):
    folder, *_ = done
    for name in ("alone", "predicted"):
        trace = floodmark.Trace.open(folder / name / "memory.flood")
        assert trace.summary()["steps"] == 6
    assert logged(folder, "alone", "validation_")


def test_the_end_is_summed_up_and_a_trace_is_there(done):
    folder, _, said = done
    trace = floodmark.Trace.open(folder / "fit" / "memory.flood")
    # Two batches of the sanity check, six of the training, six of the validation.
    assert trace.summary()["steps"] == 14
    assert f"recorded into {folder / 'fit' / 'memory.flood'}" in said
    assert str(trace).strip() in said
    categories = {row["category"] for row in trace.peak("cuda:0").by_category()}
    assert {"parameter", "optimizer state"} <= categories


def test_out_of_memory_is_explained_and_reaches_the_program(done):
    folder, found, said = done
    assert found["hungry"] is False, "raised, and the recording is over"
    oom = floodmark.Trace.open(folder / "hungry" / "memory.flood").oom()
    assert oom.requested == 1 << 42
    assert "Out of memory on cuda:0: 4.000 TiB requested at " in said
    assert "with_lightning.py" in said


def test_a_logger_that_fails_stops_no_training(done):
    _, found, said = done
    assert found["broken"] == 6
    assert said.count("the disk is full") == 1
