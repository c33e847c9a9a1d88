"""Every call of gpu_optimizer's MemoryTracer, against torch's own counters."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import threading

import pytest
import torch
from support.compat_programs import ON_A_PHANTOM, ON_THE_CPU, source
from support.phantoms import needs_cuda_build, needs_no_gpu

import floodmark
from floodmark_compat.gpu_optimizer import LayerMemoryStats, MemoryEvent, MemoryTracer

NAME = "traced_layers"
LAYERS = [
    f"{gate}{layer}" for gate in ("left", "right") for layer in ("", ".open", ".bend", ".close")
]


def test_names_arguments_and_fields_are_as_documented():
    arguments = inspect.signature(MemoryTracer).parameters.values()
    assert {each.name: each.default for each in arguments} == {
        "max_events": 100000,
        "device": "cuda:0",
        "enable_fragmentation_tracking": True,
    }
    assert [each.name for each in dataclasses.fields(LayerMemoryStats)] == [
        "layer_name",
        "peak_allocated",
        "peak_reserved",
        "total_allocations",
        "total_deallocations",
        "avg_fragmentation",
        "duration_ms",
    ]
    assert [each.name for each in dataclasses.fields(MemoryEvent)] == [
        "timestamp",
        "event_type",
        "size_bytes",
        "layer_name",
        "allocated_bytes",
        "reserved_bytes",
        "fragmentation_ratio",
    ]


def test_what_is_no_model_is_refused_and_leaves_the_tracer_free():
    tracer = MemoryTracer(device="cpu")
    with pytest.raises(TypeError, match=r"a model is a `torch\.nn\.Module`, not int"):
        tracer.trace(3).__enter__()
    assert not floodmark.is_recording()
    with tracer.trace(torch.nn.Linear(3, 3)) as traced:
        assert floodmark.is_recording()
    assert traced is tracer
    assert not floodmark.is_recording()


@needs_cuda_build
def test_every_call_on_a_simulated_gpu(programs):
    done = programs.run(source(ON_A_PHANTOM, NAME, 'program.run("cuda:0")'))
    check_output(done, "cuda:0")
    check_files(programs.folder)


def test_every_call_on_the_cpu(programs):
    done = programs.run(source(ON_THE_CPU, NAME, 'program.run("cpu")'))
    check_output(done, "cpu")
    check_files(programs.folder)


def check_output(done, device: str) -> None:
    text = done.stdout
    peaks = r"\d+\.\d\d MB allocated, \d+\.\d\d MB reserved"
    assert re.search(rf"^Peak on {device}: {peaks}$", text, re.MULTILINE)
    assert re.search(r"^8 layers, \d+ events kept$", text, re.MULTILINE)
    row = r"^ +\d+\.\d\d  +\d+  +\d+  +\d+\.\d%  +\d+\.\d\d  (\S+)$"
    rows = re.findall(row, text, re.MULTILINE)
    assert sorted(rows) == sorted(LAYERS)
    for layer in LAYERS:
        counts = r"\d+ allocated, \d+ freed, \d+\.\d\d of \d+\.\d\d MB, \d+\.\d%"
        assert re.search(rf"^{re.escape(layer)}: {counts}$", text, re.MULTILINE), layer
        assert re.search(rf"^{re.escape(layer)}: \d+\.\d% fragmentation$", text, re.MULTILINE), (
            layer
        )
    assert len(re.findall(r"^  \S+: \d+\.\d\d MB$", text, re.MULTILINE)) == 5
    assert re.search(r"^cost -?\d+\.\d\d%$", done.stderr, re.MULTILINE)


def check_files(folder) -> None:
    """The flame graph by the rules of speedscope's schema, and the timeline."""
    graph = json.loads((folder / "layers.speedscope.json").read_text())
    assert graph["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    (profile,) = graph["profiles"]
    assert (profile["type"], profile["unit"]) == ("sampled", "bytes")
    assert len(profile["samples"]) == len(profile["weights"]) > 0
    assert profile["endValue"] - profile["startValue"] == sum(profile["weights"])
    names = [frame["name"] for frame in graph["shared"]["frames"]]
    stacks = {tuple(names[at] for at in sample) for sample in profile["samples"]}
    assert {("left", "left.open"), ("right", "right.close"), ("left",)} <= stacks
    timeline = json.loads((folder / "layers.json").read_text())
    assert set(timeline) == {"events", "layer_stats", "summary"}
    assert set(timeline["layer_stats"]) == set(LAYERS)
    assert timeline["summary"]["total_events"] == len(timeline["events"])
    times = [event["timestamp"] for event in timeline["events"]]
    assert times == sorted(times)
    kinds = {event["event_type"] for event in timeline["events"]}
    assert kinds == {"alloc", "free", "snapshot", "layer_enter", "layer_exit"}


COUNTED = """
model = program.Gates().cuda()
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
tracer = program.MemoryTracer()
with tracer.trace(model):
    for size in (3000, 1001, 3000):
        model(torch.randn(size, 288).cuda())
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
# The size of every event is the change of the level.
level = tracer.events[0].allocated_bytes
for event in tracer.events:
    level += {"alloc": 1, "free": -1}.get(event.event_type, 0) * event.size_bytes
    assert event.allocated_bytes == level, event
# On the only GPU there is.
try:
    program.MemoryTracer(device="cuda:1")
except ValueError as error:
    assert "this machine has `cpu`, `cuda:0`" in str(error)
print("equal", len(counted))
last = tracer.events[-1]
assert last.reserved_bytes == torch.cuda.memory_reserved()
assert last.fragmentation_ratio == (
    last.reserved_bytes - last.allocated_bytes
) / last.reserved_bytes
"""


@needs_cuda_build
def test_every_level_and_peak_is_torchs(programs):
    done = programs.run(source(ON_A_PHANTOM, NAME, COUNTED))
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


def test_what_backward_allocates_belongs_to_its_layer():
    model = small()
    x = torch.randn(100, 64)
    tracer = MemoryTracer(device="cpu")
    with tracer.trace(model):
        out = model(x)
        out.sum().backward()
    exits = [at for at, e in enumerate(tracer.events) if e.event_type == "layer_exit"]
    later = list(tracer.events)[exits[-1] :]
    named = {(e.layer_name, e.size_bytes) for e in later if e.event_type == "alloc"}
    # Gradients of both weights, and of what went into the last layer.
    assert {("0", 64 * 128 * 4), ("2", 128 * 8 * 4), ("2", 100 * 128 * 4)} <= named
    stats = tracer.get_layer_stats()
    assert stats["0"].total_allocations >= 3
    peak = max(e.allocated_bytes for e in later if e.layer_name == "1")
    assert stats["1"].peak_allocated >= peak


@pytest.mark.parametrize("device", [0, "xpu", "nonsense", "cuda:7", "", None])
def test_an_unknown_device_is_an_error_that_names_the_devices(device):
    with pytest.raises(ValueError, match=r"no such device: .*; this machine has `cpu`"):
        MemoryTracer(device=device)


@needs_no_gpu
@pytest.mark.parametrize("arguments", [{}, {"device": "cuda"}, {"device": torch.device("cuda", 0)}])
def test_without_cuda_a_cuda_device_is_an_error_and_not_the_cpu(arguments):
    with pytest.raises(ValueError, match=r"no such device: .*cuda.*; this machine has `cpu`"):
        MemoryTracer(**arguments)
    assert not floodmark.is_recording()


def test_events_kept_are_limited_and_statistics_are_of_all():
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
    MemoryTracer(device="cpu").print_summary()
    assert capsys.readouterr().out == "nothing was traced\n"


def figures(tracer):
    """What a tracer knows, without times."""
    events = [
        (e.event_type, e.size_bytes, e.layer_name, e.allocated_bytes, e.reserved_bytes)
        for e in tracer.events
    ]
    stats = [dataclasses.replace(each, duration_ms=0) for each in tracer.get_layer_stats().values()]
    return events, stats


def test_two_tracers_at_once_each_see_everything(record):
    model = small()
    x = torch.randn(100, 64)
    first, second = MemoryTracer(device="cpu"), MemoryTracer(device="cpu")
    with torch.no_grad():
        with first.trace(model), second.trace(model):
            model(x)
        both = figures(first), figures(second)
        with record() as recorded, first.trace(model):
            model(x)
    assert both[0][1] == both[1][1] == figures(first)[1]
    assert [each[:3] for each in both[0][0]] == [each[:3] for each in both[1][0]]
    # The other recording has no steps and no layers of the tracer's.
    assert recorded.trace.summary()["steps"] == 0
    assert "layer" not in str(recorded.trace.peak("cpu").by_phase())


def test_a_trace_can_be_read_while_it_runs(capsys):
    model = small()
    x = torch.randn(100, 64)
    tracer = MemoryTracer(device="cpu")
    with torch.no_grad(), tracer.trace(model):
        model(x)
        assert tracer.get_layer_stats()["0"].total_allocations == 1
        early = len(tracer.events)
        model(x)
        assert tracer.get_layer_stats()["0"].total_allocations == 2
        assert len(tracer.events) > early
        tracer.print_summary()
        assert tracer.get_peak_memory_per_layer()["1"] > 0
    assert capsys.readouterr().out.startswith("Peak on cpu: ")
    assert tracer.get_layer_stats()["0"].total_allocations == 2
