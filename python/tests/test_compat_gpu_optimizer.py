"""The README of gpu_optimizer's MemoryTracer, run as it stands, against torch's own counters."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import textwrap
import threading

import pytest
import torch
from phantoms import needs_cuda_build
from seeds import ON_A_PHANTOM, ON_THE_CPU, blocks, without_cuda

import floodmark
from floodmark.compat import gpu_optimizer
from floodmark.compat.gpu_optimizer import LayerMemoryStats, MemoryEvent, MemoryTracer

CODE = [textwrap.dedent(code) for code in blocks("gpu_optimizer", "python")]
MODEL = """
import json, sys

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(300, 1111)
        self.act = torch.nn.GELU()
        self.down = torch.nn.Linear(1111, 300)

    def forward(self, x):
        return x + self.down(self.act(self.up(x)))

class YourModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Block()
        self.second = Block()

    def forward(self, x):
        return self.second(self.first(x))

batch_size = 64
"""
#: The README draws the timeline with matplotlib, which need not be installed: what it would draw.
PAPER = """
import sys, types

class Paper(types.ModuleType):
    def plot(self, x, y):
        assert len(x) == len(y) > 0 and min(y) >= 0
        print("drew", len(x), "points up to", round(max(y) * 1024**3))
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *words: print("said", name, *words)

sys.modules["matplotlib"] = sys.modules["matplotlib.pyplot"] = paper = Paper("matplotlib.pyplot")
paper.pyplot = paper
"""
LAYERS = ["first", "first.up", "first.act", "first.down"]
LAYERS += ["second", "second.up", "second.act", "second.down"]


def usable(code: str) -> bool:
    """Whether a block is a program: not a signature, a class as it is or a line of its inside."""
    if re.match(r"MemoryTracer\(\s*max_events: int", code) or code.startswith("@dataclass"):
        return False
    return "self._lock" not in code


def program(start: str, after: str = "", chosen: list[str] | None = None) -> str:
    """The README's blocks one after the other, with a model put in."""
    code = "\n".join(chosen or [block for block in CODE if usable(block)])
    assert "from gpu_optimizer import MemoryTracer" in code
    code = code.replace("from gpu_optimizer", "from floodmark.compat.gpu_optimizer")
    # What the README leaves to the reader.
    code = code.replace("(batch_size, ...)", "(batch_size, 300)")
    return start + PAPER + MODEL + code + after


def test_names_arguments_and_fields_are_as_documented():
    signature = next(code for code in CODE if code.startswith("MemoryTracer(\n"))
    asked = {}
    documented = signature.replace("MemoryTracer", "def tracer", 1).rstrip() + ": pass"
    exec(documented, asked)
    ours = inspect.signature(MemoryTracer).parameters
    theirs = inspect.signature(asked["tracer"]).parameters
    assert {name: each.default for name, each in ours.items()} == {
        name: each.default for name, each in theirs.items()
    }
    for code in (code for code in CODE if code.startswith("@dataclass")):
        names: dict = {}
        exec("from dataclasses import dataclass\nfrom typing import Optional\n" + code, names)
        (documented,) = (
            names[name] for name in ("LayerMemoryStats", "MemoryEvent") if name in names
        )
        ours = getattr(gpu_optimizer, documented.__name__)
        assert [each.name for each in dataclasses.fields(ours)] == [
            each.name for each in dataclasses.fields(documented)
        ]


@needs_cuda_build
def test_every_block_of_the_readme_runs(programs):
    done = programs.run(program(ON_A_PHANTOM))
    check_output(done.stdout)
    check_files(programs.folder)


def test_every_block_of_the_readme_runs_on_the_cpu(programs):
    done = programs.run(without_cuda(program(ON_THE_CPU)))
    check_output(done.stdout)
    check_files(programs.folder)


def check_output(text: str) -> None:
    assert re.search(r"^Peak: \d+\.\d\d MB allocated, \d+\.\d\d MB reserved$", text, re.MULTILINE)
    assert re.search(r"^8 layers, \d+ events kept$", text, re.MULTILINE)
    row = r"^ +\d+\.\d\d  +\d+  +\d+  +\d+\.\d%  +\d+\.\d\d  (\S+)$"
    rows = re.findall(row, text, re.MULTILINE)
    assert sorted(rows) == sorted(LAYERS)
    for layer in LAYERS:
        assert re.search(rf"^{layer}: \d+\.\d\d MB$", text, re.MULTILINE), layer
        assert re.search(rf"^{layer}: \d+\.\d% fragmentation$", text, re.MULTILINE), layer
    top = text.split("Top 5 memory-intensive layers:\n")[1].splitlines()[:5]
    assert all(re.fullmatch(r"  \S+: \d+\.\d\d MB", line) for line in top)
    assert re.search(r"^drew \d+ points up to [1-9]\d+$", text, re.MULTILINE)
    assert "said ylabel Allocated Memory (GB)\n" in text
    assert re.search(r"^Overhead: -?\d+\.\d\d%$", text, re.MULTILINE)


def check_files(folder) -> None:
    """The flame graph by the rules of speedscope's schema, and the timeline by the README."""
    graph = json.loads((folder / "memory_profile.json").read_text())
    assert graph["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    (profile,) = graph["profiles"]
    assert (profile["type"], profile["unit"]) == ("sampled", "bytes")
    assert len(profile["samples"]) == len(profile["weights"]) > 0
    assert profile["endValue"] - profile["startValue"] == sum(profile["weights"])
    names = [frame["name"] for frame in graph["shared"]["frames"]]
    stacks = {tuple(names[at] for at in sample) for sample in profile["samples"]}
    assert {("first", "first.up"), ("second", "second.down"), ("first",)} <= stacks
    timeline = json.loads((folder / "memory_timeline.json").read_text())
    assert set(timeline) == {"events", "layer_stats", "summary"}
    assert set(timeline["layer_stats"]) == set(LAYERS)
    assert timeline["summary"]["total_events"] == len(timeline["events"])
    times = [event["timestamp"] for event in timeline["events"]]
    assert times == sorted(times)
    kinds = {event["event_type"] for event in timeline["events"]}
    assert kinds == {"alloc", "free", "snapshot", "layer_enter", "layer_exit"}


COUNTED = """
# The counters of torch at the ends of every layer, and between them.
counted = {}
def before(module, args):
    torch.cuda.reset_peak_memory_stats()
    counted.setdefault(names[module], []).append([torch.cuda.memory_allocated()])
def after(module, args, out):
    counted[names[module]][-1] += [
        torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated(),
        torch.cuda.memory_reserved(),
    ]
names = {module: name for name, module in model.named_modules() if "." in name}
for module in names:
    module.register_forward_pre_hook(before)
    module.register_forward_hook(after)
tracer = MemoryTracer()
with tracer.trace(model):
    for size in (3000, 1001, 3000):
        model(torch.randn(size, 300).cuda())
stats = tracer.get_layer_stats()
enters = {name: [] for name in stats}
exits = {name: [] for name in stats}
for event in tracer.events:
    if event.event_type in ("layer_enter", "layer_exit"):
        where = enters if event.event_type == "layer_enter" else exits
        where[event.layer_name].append(event.allocated_bytes)
for name, runs in counted.items():
    assert enters[name] == [run[0] for run in runs], name
    assert exits[name] == [run[1] for run in runs], name
    assert stats[name].peak_allocated == max(run[2] for run in runs), name
    assert stats[name].peak_reserved == max(run[3] for run in runs), name
print("equal", len(counted))
last = tracer.events[-1]
assert last.reserved_bytes == torch.cuda.memory_reserved()
assert last.fragmentation_ratio == (
    last.reserved_bytes - last.allocated_bytes
) / last.reserved_bytes
"""


@needs_cuda_build
def test_every_level_and_peak_is_torchs(programs):
    done = programs.run(program(ON_A_PHANTOM, COUNTED, CODE[:1]))
    assert done.stdout.splitlines()[-1] == "equal 6"


def small():
    return torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))


def test_allocations_of_a_known_chain_on_the_cpu():
    model = small()
    x = torch.randn(100, 64)
    tracer = MemoryTracer(device="cpu")
    with torch.no_grad(), tracer.trace(model):
        model(x)
        model(x)
    stats = tracer.get_layer_stats()
    assert {name: each.total_allocations for name, each in stats.items()} == dict.fromkeys("012", 2)
    sizes = [(e.layer_name, e.size_bytes) for e in tracer.events if e.event_type == "alloc"]
    once = [("0", 100 * 128 * 4), ("1", 100 * 128 * 4), ("2", 100 * 8 * 4)]
    assert sizes == once * 2
    freed = sorted(e.size_bytes for e in tracer.events if e.event_type == "free")
    assert freed == sorted(size for _, size in sizes)
    peaks = tracer.get_peak_memory_per_layer()
    assert peaks["1"] - peaks["0"] == 100 * 128 * 4
    assert all(each.duration_ms > 0 for each in stats.values())
    assert set(tracer.get_fragmentation_stats().values()) == {0.0}


def test_at_most_so_many_events_are_kept_and_statistics_are_of_all():
    model = small()
    tracer = MemoryTracer(max_events=5, device="cpu")
    with tracer.trace(model):
        for _ in range(10):
            model(torch.randn(4, 64))
    assert len(tracer.events) == 5
    assert tracer.events[-1].event_type == "snapshot"
    assert tracer.get_layer_stats()["0"].total_allocations == 10


def test_a_second_trace_begins_anew_and_hooks_go_away_also_after_an_error():
    model = small()
    tracer = MemoryTracer(device="cpu")

    def fail():
        with tracer.trace(model):
            model(torch.randn(4, 64))
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        fail()
    assert tracer.get_layer_stats()["0"].total_allocations == 1
    assert not any(layer._forward_hooks or layer._forward_pre_hooks for layer in model)
    with tracer.trace(model), pytest.raises(RuntimeError, match="already"), tracer.trace(model):
        pass
    assert tracer.get_layer_stats() == {}
    assert not floodmark.is_recording()


def test_layers_on_several_threads():
    model = small()
    tracer = MemoryTracer(device="cpu")
    failures = []

    def work():
        try:
            for _ in range(20):
                model(torch.randn(16, 64))
        except Exception as error:
            failures.append(error)

    with tracer.trace(model):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    enters = [e for e in tracer.events if e.event_type == "layer_enter"]
    assert len(enters) == 4 * 20 * 3
    allocated = [e for e in tracer.events if e.event_type == "alloc"]
    assert len(allocated) >= 4 * 20 * 3
    assert all(isinstance(e, MemoryEvent) and e.allocated_bytes >= 0 for e in tracer.events)
    assert all(isinstance(s, LayerMemoryStats) for s in tracer.get_layer_stats().values())


def test_nothing_recorded_says_so(capsys):
    MemoryTracer().print_summary()
    assert capsys.readouterr().out == "nothing was traced\n"


def test_another_recording_is_left_alone(record, capsys):
    model = small()
    tracer = MemoryTracer(device="cpu")
    with record() as recorded, tracer.trace(model):
        model(torch.randn(4, 64))
    tracer.print_summary()
    said = capsys.readouterr()
    assert said.out == "nothing was traced\n"
    assert "a recording is running already" in said.err
    assert recorded.trace.summary()["steps"] == 0
