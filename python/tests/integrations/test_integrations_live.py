"""The figures of steps while a recording runs: the same as those that the trace has later."""

from __future__ import annotations

import time

import pytest
import torch
from support.programs import PATIENCE
from torch import nn

import floodmark
from floodmark import _core
from floodmark.integrations import _live
from floodmark.integrations._live import Guarded, Live, Step, Totals, TracePath, guarded, merged

#: How long the writer may take. It only ends a test that hangs.
PATIENCE_MILLIS = 1000 * PATIENCE


def train(model, optimizer, batch):
    model(batch).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


@pytest.fixture
def parts():
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))
    return model, torch.optim.AdamW(model.parameters())


def test_figures_are_those_of_the_report_by_step(tmp_path, parts):
    live = Live(TracePath(tmp_path / "a.flood"), {"devices": "cpu"})
    steps, kept = [], []
    for number in range(6):
        train(*parts, torch.randn(16 * (number + 1), 64))
        kept.append(torch.zeros(100))
        live.end_step("train", 10 + number)
        steps += live.take(PATIENCE_MILLIS)
        assert len(steps) == number + 1, "a wait is long enough"
    trace = live.stop()
    rows = [row for row in trace.report(by="step", device="cpu") if row["step"] is not None]
    assert [step.number for step in steps] == list(range(10, 16))
    assert [step.loop for step in steps] == ["train"] * 6
    for step, row in zip(steps, rows, strict=True):
        totals = step.devices["cpu"]
        assert (totals.peak, totals.allocated) == (row["peak"], row["end"])
        assert totals.growth == row["growth"]
        assert totals.reserved is None
        assert sum(row["categories"].values()) == row["peak"]
    assert len({step.devices["cpu"].peak for step in steps}) > 1


def test_without_a_wait_every_step_comes_once_and_in_order(tmp_path, parts):
    live = Live(TracePath(tmp_path / "a.flood"), {"devices": "cpu"})
    steps = []
    for number in range(40):
        train(*parts, torch.randn(4, 64))
        live.end_step("train", number)
        steps += live.take()
    steps += live.take(PATIENCE_MILLIS)
    live.stop()
    assert [step.number for step in steps] == list(range(40))


def test_to_ask_costs_the_same_however_long_the_trace_is(tmp_path, parts):
    live = Live(TracePath(tmp_path / "a.flood"), {"devices": "cpu"})
    costs = []
    for number in range(600):
        for _ in range(20):
            torch.empty(8)
        live.end_step("train", number)
        begin = time.thread_time()
        live.take()
        costs.append(time.thread_time() - begin)
    live.stop()
    first, last = sorted(costs[:200])[100], sorted(costs[-200:])[100]
    assert last < 5 * first + 1e-4, (first, last)


def test_a_recording_that_runs_already_goes_on_and_has_none_of_its_steps(tmp_path, parts):
    with floodmark.trace(tmp_path / "outer.flood", devices="cpu") as outer:
        torch.zeros(1 << 20)
        live = Live(TracePath(tmp_path / "inner.flood"), {})
        train(*parts, torch.randn(4, 64))
        train(*parts, torch.randn(4, 64))
        live.end_step("train", 0)
        (step,) = live.take(PATIENCE_MILLIS)
        assert step.devices["cpu"].peak < 4 << 20, "what came before is not counted"
        trace = live.stop()
        assert _core.is_recording()
    assert trace.summary()["steps"] == 1
    assert outer.trace.summary()["steps"] == 2, "those of the optimizer"


def test_a_step_of_the_program_goes_with_the_next_of_the_loop(tmp_path):
    live = Live(TracePath(tmp_path / "a.flood"), {"devices": "cpu"})
    torch.zeros(1 << 18)
    floodmark.step()
    torch.zeros(8)
    live.end_step("train", 0)
    (step,) = live.take(PATIENCE_MILLIS)
    live.stop()
    assert step.devices["cpu"].peak >= 1 << 20


def test_optimizers_end_steps_until_it_stops(tmp_path, parts):
    taken = []
    live = Live(TracePath(tmp_path / "a.flood"), {"devices": "cpu"})
    live.follow_optimizers("train", lambda: taken.extend(live.take(PATIENCE_MILLIS)))
    for _ in range(3):
        train(*parts, torch.randn(4, 64))
    live.stop()
    train(*parts, torch.randn(4, 64))
    assert [step.number for step in taken] == [0, 1, 2]


def test_several_steps_as_one_have_the_highest_peak_and_the_last_end():
    one = Step("train", 3, {"cuda:0": Totals(90, 10, None, 100, 100)})
    two = Step(
        "train", 4, {"cuda:0": Totals(70, 15, 5, 100, 80), "cpu": Totals(1, 1, 0, None, None)}
    )
    whole = merged([one, two])
    assert whole == Step(
        "train", 4, {"cuda:0": Totals(90, 15, 5, 100, 80), "cpu": Totals(1, 1, 0, None, None)}
    )
    assert whole.metrics()["memory/cuda0/peak"] == 90
    assert "memory/cpu/reserved" not in whole.metrics()
    assert merged([]) is None


def test_a_failure_prints_one_warning_and_leaves_a_complete_trace(tmp_path, capsys):
    class Loop(Guarded):
        @guarded
        def begin(self):
            self.live = Live(TracePath(tmp_path / "a.flood"), {"devices": "cpu"})

        @guarded
        def fail(self):
            raise RuntimeError("no such thing")

    loop = Loop()
    loop.begin()
    torch.zeros(10)
    loop.fail()
    loop.fail()
    assert capsys.readouterr().err.count("no such thing") == 1
    assert not _core.is_recording()
    assert floodmark.Trace.open(tmp_path / "a.flood").summary()["allocations"] >= 1


def test_a_place_that_cannot_be_written_stops_nothing(tmp_path, capsys):
    (tmp_path / "file").write_text("")

    class Loop(Guarded):
        @guarded
        def begin(self):
            self.live = Live(TracePath(tmp_path / "file" / "a.flood"), {})

    loop = Loop()
    loop.begin()
    assert loop.live is None
    assert "floodmark:" in capsys.readouterr().err


def test_every_rank_has_a_file_and_a_killed_one_keeps_its(tmp_path):
    path = tmp_path / "fit.flood"
    assert TracePath(path).free_path() == path
    (tmp_path / "fit.flood.journal").mkdir()
    assert TracePath(path).free_path() == tmp_path / "fit-2.flood"
    assert TracePath(path, 3, 8).free_path() == tmp_path / "fit.rank-0003.flood"


def test_an_error_is_about_memory_also_when_another_hides_it():
    assert _live.is_about_memory(torch.cuda.OutOfMemoryError("no"))
    assert not _live.is_about_memory(ValueError("no"))
    hiding = ValueError("hidden")
    hiding.__cause__ = torch.cuda.OutOfMemoryError("no")
    assert _live.is_about_memory(hiding)


def test_a_program_without_a_recording_has_no_steps():
    assert _core.step() is None
    assert floodmark.Recorder().step() is None
    assert floodmark.Recorder().ended_steps(0, 1000) == []
