"""Traces as torch's snapshots: what torch's own viewer makes of them."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import Counter

import pytest
import torch
from torch import nn
from torch.cuda import _memory_viz

import floodmark


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A CPU recording, and the snapshot that became of it."""
    folder = tmp_path_factory.mktemp("snapshot")
    with floodmark.trace(folder / "x.flood", devices=["cpu"]):
        model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(3):
            model(torch.randn(32, 64)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    command = [sys.executable, "-m", "floodmark", "export", "x.flood", "--to", "torch-snapshot"]
    subprocess.run(command, cwd=folder, check=True)
    with (folder / "x.snapshot.pickle").open("rb") as file:
        return folder, pickle.load(file)


def test_every_event_is_in_the_snapshot(exported):
    folder, snapshot = exported
    trace = floodmark.Trace.open(folder / "x.flood")
    again = floodmark.Trace.open(folder / "x.snapshot.pickle")
    actions = Counter(event["action"] for event in snapshot["device_traces"][0])
    assert actions["alloc"] > 50
    assert actions["free_requested"] == actions["free_completed"] > 40
    before = trace.peak("cpu").by_line(top=None)
    after = again.peak("cuda:0").by_line(top=None)
    # Read as a CUDA device, whose blocks are rounded.
    assert after.to_dict()["requested"] == before.to_dict()["allocated"] > 0
    assert sum(row["count"] for row in after) == sum(row["count"] for row in before)


def test_torch_reads_it(exported):
    _, snapshot = exported
    text = _memory_viz.trace(snapshot)
    assert text.count("= ") >= len(snapshot["segments"])
    assert "Active Memory Timeline" in _memory_viz.trace_plot(snapshot)
    assert len(_memory_viz.segsum(snapshot).splitlines()) > 2
    live = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    live = [block for block in live if block["state"] == "active_allocated"]
    assert live
    assert all("frames" in block for block in live)


def test_stacks_are_shared_not_repeated(exported):
    folder, snapshot = exported
    events = snapshot["device_traces"][0]
    stacks = {id(event["frames"]) for event in events if event.get("frames")}
    assert len(stacks) < len(events) / 4
    assert any(
        frame["filename"].endswith("test_snapshots.py")
        for event in events
        for frame in event.get("frames", [])
    )
    assert (folder / "x.snapshot.pickle").stat().st_size < 200 * len(events)


GATHERED: list[object] = []


class Leaf(nn.Module):
    def forward(self, x):
        GATHERED.append(torch._C._profiler.gather_traceback(True, True, True))
        return x * 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.leaf = Leaf()

    def forward(self, x):
        return self.leaf(x)


@pytest.fixture(scope="module")
def with_cpp_frames(tmp_path_factory):
    """A snapshot with the frames that torch records by default: C++ between Python."""
    Net()(torch.ones(3))
    frames = torch._C._profiler.symbolize_tracebacks(GATHERED)[0]
    alloc = {"action": "alloc", "addr": 1 << 32, "size": 1 << 20, "stream": 0, "time_us": 1}
    snapshot = {"segments": [], "device_traces": [[{**alloc, "frames": frames}]]}
    path = tmp_path_factory.mktemp("cpp") / "snapshot.pickle"
    path.write_bytes(pickle.dumps(snapshot))
    return path, frames


def test_memory_belongs_to_python_lines_where_cpp_frames_were_recorded(with_cpp_frames):
    path, frames = with_cpp_frames
    assert "unwind" in frames[0]["name"], "the innermost frame is one of C++"
    trace = floodmark.Trace.open(path)
    (row,) = trace.peak().by_line()
    assert row["file"] == __file__
    assert row["function"].endswith("forward")
    assert row["module"] is not None
    (native,) = trace.peak().by_line(torch_frames=True)
    assert native["function"] == frames[0]["name"]


def test_stacks_have_cpp_frames_only_when_asked(with_cpp_frames):
    path, frames = with_cpp_frames
    trace = floodmark.Trace.open(path)
    (shown,) = trace.report(by="stack")
    (everything,) = trace.report(by="stack", torch_frames=True)
    assert len(everything["frames"]) == len(frames)
    names = [frame["file"] for frame in shown["frames"]]
    assert names
    assert all(name.endswith(".py") or name.startswith("<") for name in names)
