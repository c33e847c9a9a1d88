"""A trace in the formats of other tools, through `Trace.export`."""

from __future__ import annotations

import csv
import json
import struct
import xml.etree.ElementTree as ElementTree

import pytest
import torch

from floodmark.reports.trace import Trace


@pytest.fixture(scope="module")
def trace(tmp_path_factory) -> Trace:
    """Two training steps on the CPU."""
    import floodmark

    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
    optimizer = torch.optim.Adam(model.parameters())
    path = tmp_path_factory.mktemp("export") / "x.flood"
    with floodmark.trace(path, devices="cpu"):
        for _ in range(2):
            model(torch.randn(512, 64)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    return Trace.open(path)


def peak(trace: Trace) -> int:
    return trace.peak("cpu").by_line().allocated


def test_weights_of_a_speedscope_file_add_up_to_the_peak(trace, tmp_path):
    trace.export(tmp_path / "x.speedscope.json")
    file = json.loads((tmp_path / "x.speedscope.json").read_text())
    held, over_time = file["profiles"]
    assert held["name"] == "cpu: live at the peak"
    assert sum(held["weights"]) == held["endValue"] == peak(trace)
    frames = file["shared"]["frames"]
    stacks = [[frames[at]["name"] for at in sample] for sample in over_time["samples"]]
    # Frames of torch and of pytest are left out: the fixture above and what started pytest remain.
    assert any("trace" in stack for stack in stacks)
    assert not any("forward" in name for stack in stacks for name in stack)
    assert any(stack[-1] == "(backward)" for stack in stacks)


def test_collapsed_stacks_add_up_to_the_peak(trace, tmp_path):
    trace.export(tmp_path / "stacks", "collapsed")
    lines = (tmp_path / "stacks").read_text().splitlines()
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == peak(trace)
    assert any("test_export.py:" in line for line in lines)


def test_pictures_are_whole(trace, tmp_path):
    for name in ("x.svg", "x.flamegraph.svg", "x.png"):
        trace.export(tmp_path / name, device="cpu")
    for name, words in (("x.svg", "Memory of cpu"), ("x.flamegraph.svg", "at its peak")):
        root = ElementTree.parse(tmp_path / name).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        texts = "".join(root.itertext())
        assert words in texts
    assert "forward" in "".join(ElementTree.parse(tmp_path / "x.svg").getroot().itertext())
    png = (tmp_path / "x.png").read_bytes()
    assert struct.unpack(">II", png[16:24]) == (2200, 1080)


def test_a_timeline_has_the_layers_of_the_model(trace, tmp_path):
    trace.export(tmp_path / "x.timeline.json")
    file = json.loads((tmp_path / "x.timeline.json").read_text())
    assert set(file) == {"events", "layer_stats", "summary"}
    assert {"0", "1", "2"} <= set(file["layer_stats"])
    assert file["layer_stats"]["0"]["total_allocations"] >= 2
    assert file["summary"]["peak_allocated_bytes"] == peak(trace)
    assert max(event["allocated_bytes"] for event in file["events"]) == peak(trace)


def test_rows_of_events_and_steps(trace, tmp_path):
    trace.export(tmp_path / "x.csv")
    with open(tmp_path / "x.csv", newline="") as file:
        events = list(csv.DictReader(file))
    assert max(int(event["allocated"]) for event in events) == peak(trace)
    assert {"forward", "backward", "optimizer"} <= {event["phase"] for event in events}
    trace.export(tmp_path / "x.steps.csv")
    with open(tmp_path / "x.steps.csv", newline="") as file:
        steps = list(csv.DictReader(file))
    by_step = {row["step"]: row for row in trace.report(by="step") if row["step"] is not None}
    assert len(steps) >= 2
    for step in steps:
        assert int(step["peak"]) == by_step[int(step["step"])]["peak"]
        assert int(step["allocated"]) == by_step[int(step["step"])]["end"]


def test_a_failed_write_is_an_error(trace, tmp_path):
    with pytest.raises(ValueError, match="does not show the format; choose one with `to`: `html`"):
        trace.export(tmp_path / "x.json")
    with pytest.raises(ValueError, match="`pdf` is not a format; choose one of `html`, `torch-"):
        trace.export(tmp_path / "x.pdf", "pdf")
    with pytest.raises(FileNotFoundError):
        trace.export(tmp_path / "nowhere" / "x.svg")
    with pytest.raises(FileNotFoundError):
        trace.export(tmp_path / "nowhere" / "x.parquet")
    import floodmark

    with pytest.raises(floodmark.FloodmarkError, match="nothing was recorded on cuda:3"):
        trace.export(tmp_path / "x.svg", device="cuda:3")


def test_a_folder_is_replaced_only_when_an_export_wrote_all_of_it(trace, tmp_path):
    trace.export(tmp_path / "x.parquet")
    trace.export(tmp_path / "x.parquet")
    assert (tmp_path / "x.parquet" / "_ranks.parquet").is_file()
    (tmp_path / "x.parquet" / "thesis.tex").write_text("mine")
    with pytest.raises(OSError, match=r"has `thesis\.tex`, which is not part of an export"):
        trace.export(tmp_path / "x.parquet")
    assert (tmp_path / "x.parquet" / "thesis.tex").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["x.parquet"]
