"""The example of torch's MemoryTracker, run as it stands, against the original and its counters."""

from __future__ import annotations

import json
import pickle
import re
import struct

import pytest
import torch
from phantoms import needs_cuda_build
from seeds import FOLDER, ON_A_PHANTOM, ON_THE_CPU, PROFILED, without_cuda

import floodmark
from floodmark.compat.memory_tracker import MemoryTracker

IMPORT = "from floodmark.compat.memory_tracker import MemoryTracker\n"
ORIGINAL = "from torch.distributed._tools.memory_tracker import MemoryTracker\n"
RULE = "-" * 48

MODEL = """
import json, sys
net = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 64))
input = torch.randn(512, 256)
"""
TELL = """
print(json.dumps({
    "allocated": list(mem_tracker.memories_allocated.values()),
    "active": list(mem_tracker.memories_active.values()),
    "reserved": list(mem_tracker.memories_reserved.values()),
    "markers": mem_tracker._markers,
}), file=sys.stderr)
mem_tracker.save_stats("stats.pickle")
"""


def example() -> str:
    """The lines of the docstring's example."""
    text = (FOLDER / "memory_tracker.txt").read_text()
    lines = re.findall(r"^ +>>> ?(.*)$", text, re.MULTILINE)
    assert lines[-1] == "mem_tracker.show_traces()"
    assert len(lines) == 14
    return "\n".join(lines) + "\n"


def tracked(programs, start: str, which: str, code: str | None = None) -> tuple[dict, list[str]]:
    code = code or example()
    if which == ORIGINAL:
        # It draws with matplotlib.
        code = code.replace("mem_tracker.show_traces()", "")
    source = start + which + MODEL + code + TELL
    done = programs.run(source)
    return json.loads(done.stderr.splitlines()[-1]), done.stdout.splitlines()


def read(lines: list[str]) -> dict[str, float]:
    """A printed summary, in the original's layout."""
    lines = [line for line in lines if not line.startswith("wrote `")]
    assert lines[0] == lines[-1] == RULE
    assert re.fullmatch(r"The number of alloc retries are: \d+", lines[1])
    assert re.fullmatch(r"Top \d+ ops that generates memory are:", lines[2])
    rows = [re.fullmatch(r"(\S+): (-?[\d.e-]+)MB", line) for line in lines[3:-1]]
    assert all(rows), lines
    return {row[1]: float(row[2]) for row in rows}


@needs_cuda_build
def test_the_example_runs_and_agrees_with_the_original(programs):
    theirs, their_lines = tracked(programs, ON_A_PHANTOM, ORIGINAL)
    original = (programs.folder / "stats.pickle").read_bytes()
    ours, our_lines = tracked(programs, ON_A_PHANTOM, IMPORT)
    for kind in ("allocated", "active", "reserved"):
        assert [level for _, level in ours[kind]] == [level for _, level in theirs[kind]]
    assert ours["markers"] == theirs["markers"]
    boundary = ours["markers"]["fw_bw_boundary"]
    assert boundary > 0
    assert [name for name, _ in ours["allocated"][:boundary]] == [
        name for name, _ in theirs["allocated"][:boundary]
    ]
    assert sorted(read(our_lines).values()) == sorted(read(their_lines).values())
    assert len(read(our_lines)) == 20
    # A file of the original is read here, and ours there.
    path = programs.folder / "original.pickle"
    path.write_bytes(original)
    tracker = MemoryTracker()
    tracker.load(path)
    assert [list(pair) for pair in tracker.memories_allocated.values()] == theirs["allocated"]
    assert tracker.markers == theirs["markers"]
    back = ORIGINAL + "mem_tracker = MemoryTracker()\nmem_tracker.load('stats.pickle')\n"
    again, _ = tracked(programs, ON_A_PHANTOM, "", back)
    assert again == ours


def test_backward_operators_are_named_after_their_module():
    network = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    tracker = MemoryTracker()
    tracker.start_monitor(network)
    for _ in range(2):
        network(torch.randn(4, 8)).sum().backward()
    tracker.stop()
    names = [name for name, _ in tracker.memories_allocated.values()]
    found = {name.rsplit("_", 1)[0] for name in names}
    assert {"0.forward.addmm.default", "1.forward.relu.default"} <= found
    assert {"0.backward.mm.default", "2.backward.mm.default"} <= found
    assert "1.backward.threshold_backward.default" in found
    # A second gradient is added to the first, in the module that has the parameter.
    assert {"0.backward.add_.Tensor", "2.backward.add_.Tensor"} <= found
    # The sum is nobody's.
    assert "backward.expand.default" in found
    assert ".sum.default" in found
    assert not any(name.startswith("1.backward.mm") for name in found)


def test_after_a_forward_pass_that_raised_names_are_right_again():
    class Broken(torch.nn.Module):
        def forward(self, x):
            raise ValueError("no")

    network = torch.nn.Sequential(torch.nn.Linear(4, 4), Broken())
    tracker = MemoryTracker()
    tracker.start_monitor(network)
    with pytest.raises(ValueError, match="no"):
        network(torch.randn(2, 4))
    torch.ones(3)
    tracker.stop()
    assert list(tracker.memories_allocated.values())[-1][0] == ".ones.default_0"
    assert not network[0]._forward_hooks
    assert not network[0]._forward_pre_hooks


def test_the_example_runs_on_the_cpu_and_agrees_with_the_profiler(programs):
    after = """
def step():
    net(input).sum().backward()
    net.zero_grad(set_to_none=True)

base = sum(t.untyped_storage().nbytes() for t in [*net.parameters(), input])
print((base + profiled(step)[0]) / 2**20)
"""
    ours, lines = tracked(programs, ON_THE_CPU + PROFILED, IMPORT, without_cuda(example()) + after)
    assert sum(line.startswith("wrote") for line in lines) == 4
    assert len(read(lines[:-1])) == 20
    levels = [level for _, level in ours["allocated"]]
    # After an operator its own temporaries are gone: the profiler may have seen a little more.
    assert max(levels) == pytest.approx(float(lines[-1]), rel=0.02)
    assert ours["allocated"] == ours["reserved"] == ours["active"]
    grew = read(lines[:-1])
    assert grew["0.forward.addmm.default_0"] == 512 * 1024 * 4 / 2**20


def test_a_summary_of_a_loaded_file_is_the_same(tmp_path, capsys):
    network = torch.nn.Linear(4, 4)
    tracker = MemoryTracker()
    tracker.start_monitor(network)
    network(torch.randn(2, 4))
    network(torch.randn(2, 4))
    tracker.stop()
    tracker.save_stats(tmp_path / "stats")
    tracker.summary(top=2)
    first = capsys.readouterr().out
    other = MemoryTracker()
    other.load(tmp_path / "stats")
    other.summary(top=2)
    assert capsys.readouterr().out == first
    assert len(read(first.splitlines())) == 2


class Runs:
    def __reduce__(self):
        return (open, ("ran", "w"))


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps(Runs()),
        pickle.dumps({"memories_allocated": Runs()}),
        # `int("9")`: a call of a name that may be mentioned.
        b"cbuiltins\nint\n(S'9'\ntR.",
        pickle.dumps({"memories_allocated": {0: "x"}}),
        pickle.dumps([1, 2]),
        b"",
        b"\x80\x05garbage",
    ],
)
def test_a_file_that_is_not_data_is_refused_and_not_run(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stats").write_bytes(content)
    tracker = MemoryTracker()
    with pytest.raises(floodmark.FloodmarkError, match="not a file of"):
        tracker.load("stats")
    assert not (tmp_path / "ran").exists()


PICTURES = ["memory", "allocated_memory", "active_memory", "reserved_memory"]


def size_of(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert png.endswith(b"IEND\xaeB`\x82")
    return struct.unpack(">II", png[16:24])


def test_the_whole_example_draws_four_pictures(programs):
    _, lines = tracked(programs, ON_THE_CPU, IMPORT, without_cuda(example()))
    wrote = [line.split("`")[1] for line in lines if line.startswith("wrote")]
    assert wrote == [f"memory_tracker.{name}.png" for name in PICTURES]
    pictures = [(programs.folder / name).read_bytes() for name in wrote]
    assert {size_of(picture) for picture in pictures} == {(2200, 1080)}
    # All together have a legend of three; each alone has its own.
    assert len(set(pictures)) == 4


def test_pictures_of_a_file_lie_beside_it(tmp_path, capsys):
    network = torch.nn.Linear(4, 4)
    tracker = MemoryTracker()
    tracker.start_monitor(network)
    network(torch.randn(2, 4))
    tracker.stop()
    tracker.save_stats(tmp_path / "stats.pickle")
    other = MemoryTracker()
    other.show_traces(tmp_path / "stats.pickle")
    assert other.memories_allocated == tracker.memories_allocated
    found = {path.name for path in tmp_path.iterdir()}
    assert found == {"stats.pickle", *(f"stats.{name}.png" for name in PICTURES)}


def test_start_and_stop_come_in_pairs():
    tracker = MemoryTracker()
    with pytest.raises(floodmark.FloodmarkError, match="call start_monitor"):
        tracker.stop()
    tracker.start_monitor(torch.nn.Linear(2, 2))
    with pytest.raises(floodmark.FloodmarkError, match="call stop"):
        tracker.start_monitor(torch.nn.Linear(2, 2))
    tracker.stop()
