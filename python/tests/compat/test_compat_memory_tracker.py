"""Every call of torch's MemoryTracker, against the original and torch's own counters."""

from __future__ import annotations

import importlib.util
import json
import pickle
import re
import struct
import sys
import types
from itertools import pairwise

import pytest
import torch
from support.compat_programs import ON_A_PHANTOM, ON_THE_CPU, PROFILED, TELL, source
from support.phantoms import needs_cuda_build

import floodmark
from floodmark_compat.memory_tracker import MemoryProfileDispatchMode, MemoryTracker

NAME = "tracked_operators"
RULE = "-" * 48
#: Every series of every model, from our tracker and from torch's own.
COMPARED = """
from floodmark_compat.memory_tracker import MemoryTracker as Ours
from torch.distributed._tools.memory_tracker import MemoryTracker as Original

facts = {"devices": str(torch.cuda.get_device_name())}
for name in program.MODELS:
    found = {}
    for which, kind in (("warm", Original), ("original", Original), ("ours", Ours)):
        tracker = kind()
        program.track(tracker, name, "cuda")
        series = [tracker.memories_allocated, tracker.memories_active, tracker.memories_reserved]
        found[which] = {
            "series": [[level for _, level in each.values()] for each in series],
            "names": [operator for operator, _ in tracker.memories_allocated.values()],
            "markers": dict(tracker._markers),
            "retries": tracker._num_alloc_retries,
        }
        tracker.save_stats(f"{name}-{which}.pickle")
    facts[name] = found
    del tracker
"""
#: A file of the original is read by ours, and ours by the original.
CROSSED = """
for name in program.MODELS:
    for reader, which in ((Original, "ours"), (Ours, "original")):
        tracker = reader()
        tracker.load(f"{name}-{which}.pickle")
        series = [tracker.memories_allocated, tracker.memories_active, tracker.memories_reserved]
        levels = [[level for _, level in each.values()] for each in series]
        assert levels == facts[name][which]["series"]
        assert dict(tracker._markers) == facts[name][which]["markers"]
"""


def parts(text: str) -> list[list[str]]:
    """The printed summaries, each with its rules."""
    found: list[list[str]] = [[]]
    for line in text.splitlines():
        if not line.startswith("wrote `"):
            found[-1].append(line)
        if line == RULE and len(found[-1]) > 1:
            found.append([])
    assert not found[-1]
    return found[:-1]


def read(lines: list[str]) -> dict[str, float]:
    """A printed summary, in the original's layout."""
    assert lines[0] == lines[-1] == RULE
    assert re.fullmatch(r"The number of alloc retries are: \d+", lines[1])
    assert re.fullmatch(r"Top \d+ ops that generates memory are:", lines[2])
    rows = [re.fullmatch(r"(\S+): (-?[\d.e-]+)MB", line) for line in lines[3:-1]]
    assert all(rows), lines
    return {row[1]: float(row[2]) for row in rows}


@needs_cuda_build
def test_every_series_of_three_models_equals_the_originals(programs):
    done = programs.run(source(ON_A_PHANTOM, NAME, COMPARED, CROSSED, TELL))
    facts = json.loads(done.stderr.splitlines()[-1])
    assert "H200" in facts.pop("devices")
    assert set(facts) == {"residual", "convolutions", "attention"}
    for name, found in facts.items():
        ours, theirs = found["ours"], found["original"]
        assert len(ours["series"][0]) > 40, name
        for kind in range(3):
            assert ours["series"][kind] == theirs["series"][kind], (name, kind)
        assert ours["markers"] == theirs["markers"]
        assert ours["retries"] == theirs["retries"]
        # The counts of operators, and the kinds of operators in their order.
        kinds = [[each.rsplit(".", 2)[1:] for each in one["names"]] for one in (ours, theirs)]
        assert kinds[0] == kinds[1]


@needs_cuda_build
def test_the_summary_is_the_originals(programs):
    loaded = """
from floodmark_compat.memory_tracker import MemoryTracker
program.run("cuda")
tracker = MemoryTracker()
tracker.load("operators.pickle")
facts = list(tracker.memories_allocated.values())
"""
    done = programs.run(source(ON_A_PHANTOM, NAME, loaded, TELL))
    ours, levels = done.stdout, json.loads(done.stderr.splitlines()[-1])
    theirs = programs.run(source(ON_A_PHANTOM, NAME, 'program.run("cuda", "original")')).stdout
    # The one difference: the original has no row for the first operator, whatever it allocated.
    first = levels[0][0]
    growth = [after - before for (_, before), (_, after) in pairwise(levels)]
    growth.sort(reverse=True)
    for mine, original, top in zip(parts(ours), parts(theirs), (20, 3), strict=True):
        rows, expected = read(mine), list(read(original).values())
        assert len(rows) == len(expected) == top
        assert expected == growth[:top]
        without_first = [change for name, change in rows.items() if name != first]
        assert without_first == expected[: len(without_first)]
        assert len(without_first) == top - (first in rows)


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
    # The sum belongs to no module.
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


def test_levels_on_the_cpu_agree_with_the_profiler(programs):
    after = """
sys.modules["matplotlib"] = None
program.run("cpu")
from floodmark_compat.memory_tracker import MemoryTracker

model, x = program.MODELS["residual"]()

def step():
    model(x)["out"].sum().backward()
    model.zero_grad(set_to_none=True)

step()
base = sum(t.untyped_storage().nbytes() for t in [*model.parameters(), x])
peak = base + profiled(step)[0]
tracker = MemoryTracker()
tracker.start_monitor(model)
step()
tracker.stop()
series = [tracker.memories_allocated, tracker.memories_active, tracker.memories_reserved]
facts = {"peak": peak / 2**20, "series": [list(each.values()) for each in series]}
"""
    done = programs.run(source(ON_THE_CPU + PROFILED, NAME, after, TELL))
    facts = json.loads(done.stderr.splitlines()[-1])
    first, second = parts(done.stdout)
    assert (len(read(first)), len(read(second))) == (20, 3)
    allocated, active, reserved = facts["series"]
    assert allocated == active == reserved
    # After an operator its own temporaries are freed: the profiler may have seen a little more.
    assert max(level for _, level in allocated) == pytest.approx(facts["peak"], rel=0.02)
    grew = read(first)
    assert grew["body.0.mix.forward.addmm.default_0"] == 384 * 256 * 4 / 2**20
    wrote = [line.split("`")[1] for line in done.stdout.splitlines() if line.startswith("wrote")]
    assert wrote == [
        f"{name}.{kind}.png" for name in ("memory_tracker", "operators") for kind in PICTURES
    ]
    pictures = [(programs.folder / name).read_bytes() for name in wrote]
    assert {size_of(picture) for picture in pictures} == {(2200, 1080)}
    # All together have a legend of three; each alone has its own.
    assert len(set(pictures)) == 4


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


def test_pictures_of_a_file_lie_beside_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
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


class Refusing(torch.nn.Linear):
    """A module that takes no hooks."""

    def register_forward_pre_hook(self, *_, **__):
        raise RuntimeError("no hooks here")


def test_modules_that_take_no_hooks_are_skipped_by_their_name():
    network = torch.nn.Sequential(torch.nn.Linear(4, 4))
    network[0].add_module("fused_proxy_grouped_embedding_bag", Refusing(4, 4))
    tracker = MemoryTracker()
    tracker.start_monitor(network)
    network(torch.randn(2, 4))
    tracker.stop()
    names = [name for name, _ in tracker.memories_allocated.values()]
    assert "0.forward.addmm.default_0" in names


def test_a_start_that_failed_leaves_nothing_behind():
    network = torch.nn.Sequential(torch.nn.Linear(4, 4), Refusing(4, 4))
    tracker = MemoryTracker()
    with pytest.raises(RuntimeError, match="no hooks here"):
        tracker.start_monitor(network)
    assert not floodmark.is_recording()
    assert not network._forward_pre_hooks
    assert not network[0]._forward_pre_hooks
    assert tracker.profile_mode is None
    # The same tracker begins anew.
    tracker.start_monitor(network[0])
    network[0](torch.randn(2, 4))
    tracker.stop()
    assert len(tracker.memories_allocated) > 0


def test_the_mode_and_what_users_read_of_it():
    network = torch.nn.Sequential(torch.nn.Linear(4, 4))
    tracker = MemoryTracker()
    assert tracker.profile_mode is None
    seen = []
    network[0].register_forward_hook(lambda *_: seen.append(tracker._cur_module_name))
    tracker.start_monitor(network)
    mode = tracker.profile_mode
    assert isinstance(mode, MemoryProfileDispatchMode)
    assert isinstance(mode, torch.utils._python_dispatch.TorchDispatchMode)
    assert mode.memory_tracker is tracker
    assert len(tracker._hooks) == 4
    network(torch.randn(2, 4))
    calls = tracker._op_index
    tracker._add_marker("mine")
    tracker._record_memory_stats("mine")
    tracker.stop()
    assert seen == ["0.forward"]
    assert tracker._operator_names["addmm.default"] == 1
    assert tracker._op_index == calls + 1 == len(tracker.memories_active)
    assert tracker.memories_allocated[calls][0] == "mine"
    assert tracker.markers["mine"] == calls
    assert tracker._hooks == []
    tracker._clear_state()
    assert tracker.memories_allocated == tracker.markers == {}


def test_the_mode_records_without_a_monitor(capsys):
    """A program may enter the mode itself, as it may the original's."""
    tracker = MemoryTracker()
    with MemoryProfileDispatchMode(tracker):
        kept = torch.ones(1 << 18)
        more = torch.zeros(1 << 18)
    assert not floodmark.is_recording()
    names = [name for name, _ in tracker.memories_allocated.values()]
    assert names == [".ones.default_0", ".zeros.default_0"]
    first, second = (level for _, level in tracker.memories_allocated.values())
    assert second - first == 1.0
    # A second time goes on where the first ended.
    with MemoryProfileDispatchMode(tracker):
        del more
        kept.neg()
    assert list(tracker.memories_reserved) == [0, 1, 2]
    assert tracker.memories_allocated[2] == (".neg.default_0", second)
    tracker.summary()
    rows = read(capsys.readouterr().out.splitlines())
    # The first operator too has what it added.
    assert rows == {".ones.default_0": 1.0, ".zeros.default_0": 1.0, ".neg.default_0": 0.0}


def test_levels_are_noted_without_a_monitor():
    tracker = MemoryTracker()
    tracker._record_memory_stats("before")
    kept = torch.ones(1 << 18)
    tracker._op_index = 7
    tracker._record_memory_stats("after")
    assert tracker._op_index == 8
    assert [name for name, _ in tracker.memories_allocated.values()] == ["before", "after"]
    assert list(tracker.memories_active) == [0, 7]
    assert tracker.memories_allocated[7][1] - tracker.memories_allocated[0][1] == 1.0
    assert kept.numel() == 1 << 18
    assert not floodmark.is_recording()


def test_a_program_sets_the_number_of_the_next_operator():
    network = torch.nn.Linear(4, 4)
    tracker = MemoryTracker()
    tracker.start_monitor(network)
    network(torch.randn(2, 4))
    count = len(tracker.memories_allocated)
    tracker._op_index = 100
    tracker._add_marker("here")
    network(torch.randn(2, 4))
    tracker.stop()
    assert list(tracker.memories_allocated) == [*range(count), *range(100, 100 + count)]
    assert tracker.markers["here"] == 100


class Louder(MemoryTracker):
    """A tracker whose hooks say when they run, as subclasses of the original do."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def _create_pre_forward_hook(self, name):
        inner = super()._create_pre_forward_hook(name)

        def before(module, inputs):
            self.calls.append(f"before {name}")
            inner(module, inputs)

        return before

    def _create_post_forward_hook(self, name):
        inner = super()._create_post_forward_hook(name)

        def after(module, inputs, outputs):
            inner(module, inputs, outputs)
            self.calls.append(f"after {name}")

        return after


def test_a_subclass_replaces_the_hooks_of_modules():
    network = torch.nn.Sequential(torch.nn.Linear(4, 4))
    tracker = Louder()
    tracker.start_monitor(network)
    network(torch.randn(2, 4))
    # As the original has it, the program registers this one.
    backward = tracker._create_backward_hook("mine")
    backward(network, None, None)
    assert tracker._cur_module_name == "mine.backward"
    torch.zeros(3)
    tracker._cur_module_name = "theirs"
    torch.zeros(3)
    network(torch.randn(2, 4))
    tracker.stop()
    assert tracker.calls == ["before ", "before 0", "after 0", "after "] * 2
    names = [name for name, _ in tracker.memories_allocated.values()]
    assert "mine.backward.zeros.default_0" in names
    assert "theirs.zeros.default_1" in names
    # Hooks of modules name what comes after them.
    assert names[-1] == "0.forward.addmm.default_1"
    assert set(tracker.markers) == {"fw_start", "fw_bw_boundary"}


def test_a_program_clears_and_replaces_series_while_the_tracker_runs():
    network = torch.nn.Sequential(torch.nn.Linear(4, 4))
    tracker = MemoryTracker()
    tracker.start_monitor(network)
    network(torch.randn(2, 4))
    calls = tracker._op_index
    assert len(tracker.memories_allocated) == calls
    tracker.memories_allocated.clear()
    mine = {}
    tracker.memories_active = mine
    network(torch.randn(2, 4))
    tracker.stop()
    later = list(range(calls, tracker._op_index))
    assert later
    assert list(tracker.memories_allocated) == list(tracker.memories_active) == later
    assert tracker.memories_active is mine
    assert list(tracker.memories_reserved) == list(range(tracker._op_index))
    tracker.memories_reserved = {}
    assert tracker.memories_reserved == {}


def test_pictures_are_not_replaced_by_empty_ones(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "memory_tracker.memory.png").write_bytes(b"a picture")
    with pytest.raises(floodmark.FloodmarkError, match="nothing was tracked"):
        MemoryTracker().show_traces()
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"a picture"]


class Axes:
    """What a figure draws."""

    def __init__(self):
        self.lines, self.marks, self.words = {}, {}, []

    def plot(self, across, up, label):
        self.lines[label] = (across, up)

    def vlines(self, at, low, high, colors, linewidth, label):
        self.marks[label] = (at, colors)

    def set_xlabel(self, text):
        self.words.append(text)

    def set_ylabel(self, text):
        self.words.append(text)

    def legend(self):
        self.words.append("legend")


def test_where_matplotlib_is_installed_figures_are_shown(tmp_path, monkeypatch, capsys):
    """Against the calls of matplotlib's interface; `make` need not install it."""
    figures = []

    def subplots():
        figures.append(Axes())
        return None, figures[-1]

    pyplot = types.ModuleType("matplotlib.pyplot")
    pyplot.subplots = subplots
    package = types.ModuleType("matplotlib")
    package.pyplot = pyplot
    monkeypatch.setitem(sys.modules, "matplotlib", package)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", pyplot)
    monkeypatch.chdir(tmp_path)
    network = torch.nn.Linear(4, 4)
    tracker = MemoryTracker()
    tracker.start_monitor(network)
    network(torch.randn(2, 4))
    tracker.stop()
    tracker.show_traces()
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().out == ""
    names = ["allocated_memory", "active_memory", "reserved_memory"]
    assert [list(each.lines) for each in figures] == [names, *([name] for name in names)]
    allocated = [level for _, level in tracker.memories_allocated.values()]
    for each in figures:
        across, up = next(iter(each.lines.values()))
        assert across == list(range(len(allocated)))
        assert up == allocated
        assert each.words == ["# Operator Calls", "Memory (MB)", "legend"]
        assert each.marks["fw_start"][0] == tracker.markers["fw_start"]
        assert each.marks["fw_bw_boundary"] == (tracker.markers["fw_bw_boundary"], "red")


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="needs matplotlib")
def test_matplotlib_itself_shows_four_figures():
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    plt.close("all")
    network = torch.nn.Linear(4, 4)
    tracker = MemoryTracker()
    tracker.start_monitor(network)
    network(torch.randn(2, 4))
    tracker.stop()
    tracker.show_traces()
    assert len(plt.get_fignums()) == 4
    axes = plt.figure(plt.get_fignums()[0]).axes[0]
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts[:3] == ["allocated_memory", "active_memory", "reserved_memory"]
    assert axes.get_xlabel() == "# Operator Calls"
    plt.close("all")


def test_series_and_files_while_the_tracker_runs(tmp_path):
    network = torch.nn.Linear(4, 4)
    tracker = MemoryTracker()
    tracker.start_monitor(network)
    network(torch.randn(2, 4))
    early = dict(tracker.memories_allocated)
    assert list(early) == list(range(tracker._op_index))
    tracker.save_stats(tmp_path / "early")
    network(torch.randn(2, 4)).sum().backward()
    late = dict(tracker.memories_allocated)
    tracker.summary(top=1)
    tracker.stop()
    assert len(late) > len(early)
    assert tracker.memories_allocated == late
    assert {at: late[at] for at in early} == early
    loaded = MemoryTracker()
    loaded.load(tmp_path / "early")
    assert loaded.memories_allocated == early


def test_two_trackers_at_once_have_the_same_series(record):
    network = torch.nn.Linear(4, 4)
    x = torch.randn(2, 4)
    outer, inner = MemoryTracker(), MemoryTracker()
    with record() as recorded:
        outer.start_monitor(network)
        inner.start_monitor(network)
        network(x).sum().backward()
        inner.stop()
        outer.stop()
    assert len(inner.memories_allocated) > 3
    assert outer.memories_allocated == inner.memories_allocated
    assert outer.markers == inner.markers
    assert recorded.trace.summary()["steps"] == 0


def test_start_and_stop_come_in_pairs():
    tracker = MemoryTracker()
    with pytest.raises(floodmark.FloodmarkError, match="call start_monitor"):
        tracker.stop()
    tracker.start_monitor(torch.nn.Linear(2, 2))
    with pytest.raises(floodmark.FloodmarkError, match="call stop"):
        tracker.start_monitor(torch.nn.Linear(2, 2))
    tracker.stop()


def test_a_program_that_allocates_nothing_has_zeros(programs):
    done = programs.python(
        "-c",
        "import torch\n"
        "from floodmark_compat.memory_tracker import MemoryTracker\n"
        "tracker, model = MemoryTracker(), torch.nn.Identity()\n"
        "tracker.start_monitor(model)\n"
        "model(torch.empty(0)).view(0)\n"
        "tracker.stop()\n"
        "tracker.summary()\n"
        "print([level for _, level in tracker.memories_allocated.values()])",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[0.0, 0.0]"
