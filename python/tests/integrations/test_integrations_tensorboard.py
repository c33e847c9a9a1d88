"""Scalars for TensorBoard, read back by TensorBoard itself."""

from __future__ import annotations

import pytest
import torch
from support.programs import PATIENCE
from torch import nn

import floodmark

pytest.importorskip("tensorboard", reason="needs tensorboard")


@pytest.fixture
def loop():
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))
    optimizer = torch.optim.AdamW(model.parameters())

    def train(steps):
        for number in range(steps):
            model(torch.randn(64 * (number + 1), 64)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

    return train


def scalars(folder):
    """Everything in a log folder: name, then step, then value."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    events = EventAccumulator(str(folder), size_guidance={"tensors": 0}).Reload()
    return {
        name: {
            event.step: make_ndarray(event.tensor_proto).item() for event in events.Tensors(name)
        }
        for name in events.Tags()["tensors"]
    }


def of_trace(path, key):
    rows = floodmark.Trace.open(path).report(by="step", device="cpu", top=None)
    return {row["step"]: row[key] for row in rows if row["step"] is not None}


def test_steps_categories_and_phases_are_those_of_the_trace(tmp_path, loop, capfd):
    from floodmark.integrations.tensorboard import MemoryScalars

    with MemoryScalars(tmp_path / "run", devices="cpu"):
        loop(5)
    found = scalars(tmp_path / "run")
    path = tmp_path / "run" / "memory.flood"
    assert found["memory/cpu/peak"] == of_trace(path, "peak")
    assert found["memory/cpu/allocated"] == of_trace(path, "end")
    assert set(found["memory/cpu/peak"]) == set(range(5))
    assert len(set(found["memory/cpu/peak"].values())) == 5
    for kind in ("categories", "phases"):
        for step, expected in of_trace(path, kind).items():
            prefix = f"memory/cpu/{kind}/"
            values = {
                name.removeprefix(prefix): by_step[step]
                for name, by_step in found.items()
                if name.startswith(prefix) and step in by_step
            }
            assert values == {name.replace(" ", "_"): value for name, value in expected.items()}
    assert {"forward", "backward", "optimizer"} <= set(of_trace(path, "phases")[0])
    assert "5 steps" in capfd.readouterr().err


def test_a_loop_without_an_optimizer_says_when_a_step_ends(tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    from floodmark.integrations.tensorboard import MemoryScalars

    writer = SummaryWriter(str(tmp_path / "run"))
    options = {"optimizer_steps": False, "first_step": 100, "summary": False, "devices": "cpu"}
    with MemoryScalars(writer, tmp_path / "own.flood", **options) as memory, torch.no_grad():
        for rows in (10, 30, 20):
            torch.zeros(rows, 1 << 16)
            memory.step()
    # The writer is the program's, and stays open.
    writer.add_scalar("loss", 0.5, 0)
    writer.close()
    peaks = scalars(tmp_path / "run")["memory/cpu/peak"]
    assert list(peaks) == [100, 101, 102]
    assert [int(peak) >> 18 for peak in peaks.values()] == [10, 30, 20]


def test_figures_come_while_the_program_runs(tmp_path, loop):
    from floodmark.integrations.tensorboard import MemoryScalars

    with MemoryScalars(tmp_path / "run", devices="cpu", summary=False) as memory:
        loop(2)
        # The writer of the trace is a lap behind: the later figure has more.
        memory._write_known(1000 * PATIENCE)
        memory._writer.flush()
        assert set(scalars(tmp_path / "run")["memory/cpu/peak"]) == {0, 1}


def test_any_trace_can_be_written_later(tmp_path, loop):
    from floodmark.integrations.tensorboard import write_scalars

    with floodmark.trace(tmp_path / "a.flood", devices="cpu") as recorder:
        loop(3)
    write_scalars(recorder.trace, tmp_path / "run")
    found = scalars(tmp_path / "run")
    assert found["memory/cpu/peak"] == of_trace(tmp_path / "a.flood", "peak")
    assert found["memory/cpu/allocated"] == of_trace(tmp_path / "a.flood", "end")
    assert "memory/cpu/categories/optimizer_state" in found


def test_a_writer_that_fails_stops_no_training(tmp_path, loop, capfd):
    from floodmark.integrations.tensorboard import MemoryScalars

    class Broken:
        log_dir = str(tmp_path)

        def add_scalar(self, *_, **__):
            raise OSError("the disk is full")

    with MemoryScalars(Broken(), devices="cpu"):
        loop(4)
    assert capfd.readouterr().err.count("the disk is full") == 1
    assert not floodmark.is_recording()


def test_an_error_comes_out_as_it_was(tmp_path, loop):
    from floodmark.integrations.tensorboard import MemoryScalars

    def fail():
        with MemoryScalars(tmp_path / "run", devices="cpu", summary=False):
            loop(1)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fail()
    assert floodmark.Trace.open(tmp_path / "run" / "memory.flood").summary()["steps"] == 1
