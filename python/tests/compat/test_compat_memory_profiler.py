"""Every call of memory_profiler, against torch's own counters."""

from __future__ import annotations

import importlib.util
import json
import logging
import re
import sys

import pytest
import torch
from support.compat_programs import ON_A_PHANTOM, ON_THE_CPU, TELL, source
from support.phantoms import needs_cuda_build
from support.programs import Programs
from torch.utils._python_dispatch import TorchDispatchMode

import floodmark
from floodmark_compat.memory_profiler import (
    MemoryDispatchMode,
    MemoryTracer,
    configure_logging,
    get_logger,
)

NAME = "estimated_step"
OURS = "from floodmark_compat.memory_profiler import"
TRACER = f"import json, sys, torch\n{OURS} MemoryTracer, TracerPlugin\n"

#: The tool's names for a program that really runs: torch's counters answer.
COUNTED = """
import contextlib
from types import SimpleNamespace

class MemoryTracer(contextlib.nullcontext):
    memory_dispatch_mode = SimpleNamespace(
        register_hooks_to_module=lambda model: [], remove_hooks=lambda handles: None
    )

    create_fake_tensor = staticmethod(lambda *size, **more: torch.zeros(*size, **more))
    track_phase = staticmethod(contextlib.nullcontext)
    get_current_memory_allocated = staticmethod(lambda: [torch.cuda.memory_allocated()])

facts, kept = program.train(MemoryTracer(), "cuda")
facts += [torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()]
"""
ESTIMATED = """
with program.MemoryTracer(device="cuda") as tracer:
    facts, kept = program.train(tracer, "cuda")
facts += [tracer.get_current_memory_allocated()[0], tracer.get_max_memory_allocated()[0]]
program.run("cuda")
"""

HEADS = {
    "Memory per device": "Peak MB  Current MB  Device",
    "Memory per phase": "At peak MB  At end MB  Peak MB  Before MB  After MB  Times  Phase",
    "Memory per module": "At peak MB  Own MB  Tensors  Module",
    "Memory per operator": "At peak MB  Tensors  Operator",
    "Forward passes": "Kept MB  Calls  Module",
    "Tensors": "At peak MB  Tensors  At end MB  Tensors  Kind",
}


@pytest.fixture(autouse=True)
def fresh_logging():
    """The logger as it was; nothing is set up yet."""

    def forget():
        for handler in list(base.handlers):
            base.removeHandler(handler)
            handler.close()
        base.setLevel(logging.NOTSET)
        base.propagate = True

    base = logging.getLogger("memory_profiler")
    forget()
    yield
    forget()


def read(text: str) -> dict[str, dict[str, list[float]]]:
    """The printed tables: the numbers of each row by its name. Every line must be understood."""
    found: dict[str, dict[str, list[float]]] = {}
    for part in re.split(r"\n\n", text.strip("\n")):
        title, head, *rows = part.splitlines()
        title = re.sub(r" \(.*\)$", "", title)
        assert re.split(r" {2,}", head.strip()) == re.split(r" {2,}", HEADS[title])
        found[title] = {}
        for row in rows:
            cells = re.fullmatch(r"((?: *(?:\d+(?:\.\d\d)?|-)  )+)( *\S.*)", row)
            assert cells, row
            numbers = [float("nan") if each == "-" else float(each) for each in cells[1].split()]
            assert len(numbers) == len(re.split(r" {2,}", HEADS[title])) - 1
            found[title][cells[2].strip()] = numbers
    return found


@pytest.fixture(scope="module")
def estimated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("estimated")
    return Programs(folder).run(source(ON_THE_CPU, NAME, ESTIMATED, TELL))


@needs_cuda_build
def test_the_estimate_agrees_with_torchs_counters(programs, estimated):
    theirs = programs.run(source(ON_A_PHANTOM, NAME, COUNTED, TELL))
    ours, truth = (json.loads(each.stderr.splitlines()[-1]) for each in (estimated, theirs))
    assert len(ours) == len(truth) == 5
    assert ours == pytest.approx(truth, rel=0.01)


def test_every_table_is_printed(estimated):
    after, _, rest = estimated.stdout.partition("\n\n")
    names = [re.fullmatch(r"after (\w+): \d+\.\d\d MB", line)[1] for line in after.splitlines()]
    assert names == ["forward", "backward", "optimizer"]
    text, _, end = rest.rpartition("\n")[0].rpartition("\n")
    peak = float(re.fullmatch(r"peak: (.*) MB", end)[1])
    found = read(text)
    assert list(found) == [*list(HEADS)[:4], "Tensors", "Forward passes"]
    assert found["Memory per device"]["cuda:0"][0] == peak
    phases = found["Memory per phase"]
    assert list(phases)[:3] == ["forward", "backward", "optimizer"]
    # Each phase begins where the one before it ended.
    assert phases["forward"][4] == phases["backward"][3]
    # One of them has the peak; none is below its ends.
    named = {name: row for name, row in phases.items() if row[2] == row[2]}
    assert max(row[2] for row in named.values()) == peak
    assert all(row[2] >= max(row[3:5]) for row in named.values())
    for table in ("Memory per phase", "Memory per operator", "Tensors"):
        assert sum(row[0] for row in found[table].values()) == pytest.approx(peak, abs=0.1)
    # 1200 x 768 halves each of weight, gradient and two states, in both layers.
    weight = 1200 * 768 * 2 / 2**20
    kinds = found["Tensors"]
    assert kinds["parameter"][0] == pytest.approx(2 * weight, abs=0.02)
    assert kinds["optimizer state"][2] == pytest.approx(4 * weight, abs=0.02)
    modules = found["Memory per module"]
    assert {"Tagger", "tags (Linear)", "words (Embedding)"} <= set(modules)
    # The weight at least; where the peak is depends on the version of torch.
    assert weight - 0.01 <= modules["words (Embedding)"][0] < peak
    forwards = found["Forward passes"]
    assert forwards["Tagger"][1] == 1
    assert forwards["words"][0] == round(6 * 96 * 768 * 2 / 2**20, 2)


LOGGED = """
import logging
from floodmark_compat.memory_profiler import configure_logging, get_logger, MemoryTracer

# Each of the documented ways to set it up.
configure_logging(level=logging.INFO)
get_logger(__name__).info("to be seen")
configure_logging(
    level=logging.DEBUG, log_to_file=True, log_file="first.log", rich_format=True
)
configure_logging(level=logging.INFO, rich_format=False)
get_logger(__name__).debug("not to be seen")
quiet = MemoryTracer(device="cuda")
with quiet:
    pass
quiet.print_memory_stats()
loud = MemoryTracer(device="cuda", log_level=logging.DEBUG)
plain = MemoryTracer(device="cuda", log_level=logging.INFO)
configure_logging(level=logging.DEBUG, log_to_file=True, log_file="second.log")
with loud:
    torch.empty(1 << 20, device="cuda")
with plain:
    pass
plain.print_memory_stats(detailed=True)
"""


def test_every_way_to_log(programs):
    done = programs.run(ON_THE_CPU + LOGGED)
    lines = done.stdout.splitlines()
    assert lines[0] == "to be seen"
    assert "Memory per device" in lines
    assert "not to be seen" not in done.stdout
    assert "DEBUG: traced cuda:0: 4194304 bytes at its peak, 0 now" in lines
    assert lines.count("DEBUG: tracing cuda:0 with fake tensors") == 1
    assert "WARNING: no modules, operators and tensors are known: " in done.stdout
    # The first file was set up and left without a line.
    assert (programs.folder / "first.log").read_text() == ""
    written = (programs.folder / "second.log").read_text()
    assert re.search(r"^[\d-]+ [\d:,]+ DEBUG memory_profiler\.tracer\d+: tracing", written, re.M)


BEHAVIOUR = """
import contextlib, floodmark

# `torch.cuda` adds names when it begins, and says afterwards that there is no device.
names = [name for name, value in vars(torch.cuda).items() if callable(value)]
names = [name for name in names if name not in ("is_available", "device_count")]

def state():
    cuda = [getattr(torch.cuda, name) for name in names]
    known = sys.modules["torch.optim.optimizer"]._foreach_supported_types
    fakes = [kind for kind in known if kind.__name__ == "FakeTensor"]
    loader = torch.utils.data.DataLoader.__iter__
    return cuda, fakes, loader, json.dumps, torch.cuda.is_available(), type(torch.empty(1))

class Mine(TracerPlugin):
    library = "json"

    def attach(self, library):
        self.patch(library, "dumps", lambda tensor: "fake")

class Missing(TracerPlugin):
    library = "no_such_library_at_all"

def dist_is_whole():
    from torch.distributed.distributed_c10d import Backend
    return not hasattr(Backend, "FLOODMARK")

facts = {}
plain = json.dumps
torch.cuda.is_available()
network = torch.nn.Sequential(torch.nn.Linear(8, 8))
before = state()
tracer = MemoryTracer(plugins=[Mine, Missing])
facts["early"] = tracer.get_max_memory_allocated()
with contextlib.suppress(KeyError), tracer:
    tracer.memory_dispatch_mode.register_hooks_to_module(network)
    facts["hooks"] = len(network[0]._forward_hooks)
    with tracer.track_phase("outer"):
        kept = tracer.create_fake_tensor(1 << 20, dtype=torch.uint8)
        facts["patched"] = [json.dumps(kept), json.dumps([1])]
        with tracer.track_phase("inner"):
            inner = tracer.create_fake_tensor((2, 1 << 20), dtype=torch.uint8, device="cuda")
            facts["inside"] = tracer.get_current_memory_allocated()
        del inner
        raise KeyError
facts["changed"] = [str(one) for one, other in zip(state(), before) if one != other]
facts["restored"] = json.dumps is plain
facts["recording"] = floodmark.is_recording()
facts["hooks after"] = len(network[0]._forward_hooks) + len(network[0]._forward_pre_hooks)
facts["after"] = [tracer.get_current_memory_allocated(), tracer.get_max_memory_allocated()]
facts["phases"] = {row["location"]: row["bytes"] for row in tracer.trace.peak().by_phase()}
facts["snapshot"] = [[row["bytes"], row["location"]] for row in tracer.peak_snapshot()]
facts["lives"] = tracer.tensor_lifetimes()

# The same tracer again, then another; larger than any GPU; torch's peaks are reset.
for tracer in (tracer, MemoryTracer(gpu="t4")):
    with tracer:
        huge = tracer.create_fake_tensor(1 << 40, dtype=torch.uint8)
        del huge
        torch.cuda.reset_peak_memory_stats()
        tracer.print_memory_stats()
    facts.setdefault("huge", []).append(tracer.get_max_memory_allocated())

# A tracer inside another one and inside a recording.
with floodmark.trace() as around, MemoryTracer() as outer:
    first = outer.create_fake_tensor(1 << 21, dtype=torch.uint8)
    del first
    with MemoryTracer() as inner:
        kept = inner.create_fake_tensor(1 << 20, dtype=torch.uint8)
        facts["in both"] = [inner.get_max_memory_allocated(), outer.get_max_memory_allocated()]
    last = outer.create_fake_tensor(1 << 20, dtype=torch.uint8)
inner.print_memory_stats(detailed=True)
facts["inner"] = [inner.get_current_memory_allocated(), inner.get_max_memory_allocated()]
facts["outer"] = [outer.get_current_memory_allocated(), outer.get_max_memory_allocated()]
facts["rows"] = [
    [row["bytes"] for row in tracer.trace.end(tracer._device).by_tensor()]
    for tracer in (inner, outer)
]
facts["around"] = [around.failure, dist_is_whole()]

with MemoryTracer(device="cpu") as tracer:
    model = torch.nn.Linear(100, 10, bias=False)
    handles = tracer.memory_dispatch_mode.register_hooks_to_module(model)
    model(tracer.create_fake_tensor(3, 100)).sum().backward()
    tracer.memory_dispatch_mode.remove_hooks(handles)
    facts["left"] = len(model._forward_hooks)
    del model
facts["cpu"] = tracer.get_max_memory_allocated()
facts["modules"] = tracer.memory_dispatch_mode.module_memory_usage
facts["per device"] = tracer.memory_dispatch_mode.peak_memory_per_device
# Two models of one class have two rows each.
import torch.distributed as dist
from floodmark_compat.memory_profiler import DistributedPlugin

class Pair(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(256, 256, bias=False)

    def forward(self, x):
        facts["stack"] = list(modes.module_stack)
        return self.layer(x)

with MemoryTracer(plugins=[DistributedPlugin]) as tracer:
    modes = tracer.memory_dispatch_mode
    pairs = [Pair().cuda(), Pair().cuda()]
    for pair in pairs:
        modes.register_hooks_to_module(pair)
    x = tracer.create_fake_tensor(64, 256, device="cuda")
    with tracer.track_phase("wide"):
        y = torch.cat([x, x]).sum()
    for pair in pairs:
        y = pair(x)
    lives = modes.live_tensors
    facts["live"] = [lives[x], len(lives), modes.module_stack]
    owners = modes.tensor_to_module
    facts["owners"] = [owners.get(y), owners.get(x), owners.get(pairs[1].layer.weight)]
    # Collectives of a program that has no group.
    facts["alone"] = [
        str(dist.all_reduce(x)), dist.all_reduce(x, async_op=True).wait(), dist.recv(x, 3),
        str(dist.barrier()), dist.is_initialized(),
    ]
    operations = [dist.P2POp(dist.isend, x, 1), dist.P2POp(dist.irecv, x, 1)]
    facts["batch"] = [work.wait() for work in dist.batch_isend_irecv(operations)]
    group = dist.new_group([0, 2, 5])
    facts["group"] = [
        dist.get_rank(), dist.get_world_size(), dist.get_rank(group), dist.get_world_size(group),
        str(dist.all_reduce(x, group=group)), dist.get_rank(dist.new_group([1])),
    ]
    facts["shares"] = [None, None]
    dist.all_gather_object(facts["shares"], "mine")
    tracer.print_memory_stats(detailed=True)
facts["phase peak"] = tracer.get_peak_memory_per_phase()
del lives, owners, pairs[0]
stranger = torch.ones(3)
after = modes.live_tensors, modes.tensor_to_module
facts["live after"] = [
    after[0].get(x), after[0].get(stranger), after[1].get(x), after[1].get(pairs[0].layer.weight)
]
facts["forwards"] = {name: each.calls for name, each in modes._forwards.items()}
facts["notes"] = tracer.estimate.to_dict()["notes"]

# Tensors that are requested on `meta` are counted.
with MemoryTracer(device="meta") as tracer:
    with torch.device("meta"):
        first = torch.nn.Linear(512, 512, bias=False)
    second = torch.nn.Linear(512, 512, bias=False).to("meta")
    batch = tracer.create_fake_tensor(16, 512, device="meta")
    facts["meta"] = [tracer.get_current_memory_allocated()[0]]
    second(first(batch)).sum().backward()
facts["meta"].append(tracer.get_max_memory_allocated()[0])
facts["meta here"] = str(torch.empty(1, device="meta").device)

print(json.dumps(facts), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def behaviour(tmp_path_factory):
    return Programs(tmp_path_factory.mktemp("behaviour")).run(TRACER + BEHAVIOUR)


@pytest.fixture
def facts(behaviour):
    return json.loads(behaviour.stderr.splitlines()[-1])


MIB = 1 << 20


def test_phases_are_nested_and_an_exception_ends_them(facts):
    assert facts["early"] == [0]
    assert facts["inside"] == [3 * MIB]
    assert facts["after"] == [[MIB], [3 * MIB]]
    assert facts["phases"] == {"outer": MIB, "inner": 2 * MIB}
    rows = facts["snapshot"]
    assert [size for size, _ in rows] == [2 * MIB, MIB]
    # The program's own lines, not ours.
    assert all("program.py:" in where for _, where in rows)


def test_every_tensor_has_its_life(facts):
    lives = facts["lives"]
    assert sorted(life["bytes"] for life in lives) == [MIB, 2 * MIB]
    for life in lives:
        assert life["allocated_seconds"] > 0
        assert life["freed_seconds"] is None or life["freed_seconds"] >= life["allocated_seconds"]
    # The larger one went with its phase, the other is still held by the program.
    freed = {life["bytes"]: life["freed_seconds"] for life in lives}
    assert freed[2 * MIB] is not None


def test_an_exception_leaves_everything_as_it_was(facts):
    assert facts["changed"] == []
    assert facts["restored"] is True
    assert facts["recording"] is False
    assert (facts["hooks"], facts["hooks after"]) == (1, 0)


def test_a_plugin_of_the_programs_own_answers_for_fake_tensors_only(facts):
    assert facts["patched"] == ["fake", "[1]"]


def test_no_card_is_too_small_and_tracers_follow_each_other(facts, behaviour):
    assert facts["huge"] == [[1 << 40], [1 << 40]]
    # Printed inside the block, while the recording runs.
    assert behaviour.stdout.count("Memory per device") == 4
    assert "killed" not in behaviour.stdout


def test_modules_of_two_models_of_one_class_do_not_merge(facts):
    assert facts["forwards"] == {"Pair": 1, "layer": 1, "Pair#2": 1, "Pair#2.layer": 1}
    assert facts["stack"] == ["Pair#2"]


def test_live_tensors_have_the_bytes_of_their_storages(facts):
    size, count, stack = facts["live"]
    assert size == 64 * 256 * 4
    # Two weights, the batch, and what the last model computed.
    assert count >= 4
    assert stack == []


def test_live_tensors_have_their_modules(facts):
    made, batch, weight = facts["owners"]
    # The recording names two models of one class by the class.
    assert made.endswith("layer")
    assert weight.endswith("layer")
    assert batch is None


def test_live_tensors_are_known_after_the_block(facts):
    size, stranger, batch, weight = facts["live after"]
    assert size == 64 * 256 * 4
    assert weight.endswith("layer")
    assert (stranger, batch) == (None, None)


def test_collectives_without_a_group_do_nothing(facts):
    assert facts["alone"] == ["None", True, 3, "None", False]
    assert facts["shares"] == ["mine", "mine"]
    assert "Collectives without a process group did nothing" in facts["notes"]


def test_groups_without_a_process_group_are_stand_ins(facts):
    assert facts["batch"] == [True, True]
    # Rank 0 of 1; rank 0 of three; nothing to reduce; not in a group of others.
    assert facts["group"] == [0, 1, 0, 3, "None", -1]


def test_the_mode_is_one_of_torchs():
    mode = MemoryTracer().memory_dispatch_mode
    assert isinstance(mode, MemoryDispatchMode)
    assert isinstance(mode, TorchDispatchMode)
    assert issubclass(MemoryDispatchMode, TorchDispatchMode)
    with mode:
        assert torch.ones(3).sum().item() == 3


def test_plugins_that_there_are_not_are_refused():
    with pytest.raises(
        ValueError, match=r"no such plugin: 'megatron'; there are .*`megatron-core`"
    ):
        MemoryTracer(without=["megatron"])
    with pytest.raises(ValueError, match=r"no such plugin: 'nope'; there are `torch.distributed`"):
        floodmark.estimate(engine="fake", without=["torch.distributed", "nope"])
    with pytest.raises(TypeError, match=r"a plugin is a class, .* not 'distributed'"):
        MemoryTracer(plugins=["distributed"])
    MemoryTracer(without=["megatron-core"])


def test_a_phase_has_a_peak_of_its_own(facts):
    # Two weights and the batch, and twice the batch inside.
    weights, batch = 2 * 256 * 256 * 4, 64 * 256 * 4
    assert weights + 3 * batch <= facts["phase peak"]["wide"] <= weights + 3 * batch + 4096


def test_what_lies_on_meta_is_counted(facts):
    weights, batch = 2 * 512 * 512 * 4, 16 * 512 * 4
    now, peak = facts["meta"]
    assert now == weights + batch
    assert peak >= 2 * weights + batch
    assert facts["meta here"] == "meta"


def test_the_plugins_have_the_documented_names():
    from floodmark_compat import memory_profiler

    for name, library in (
        ("DistributedPlugin", "torch.distributed"),
        ("P2PCommunicationPlugin", "megatron"),
        ("TransformerEnginePlugin", "transformer_engine"),
    ):
        plugin = getattr(memory_profiler, name)
        assert plugin.library.startswith(library)
        assert isinstance(plugin.is_installed(), bool)


def test_root_handlers_have_the_records(caplog):
    configure_logging(rich_format=False)
    with caplog.at_level(logging.INFO):
        get_logger("mine").info("for all")
        MemoryTracer().print_memory_stats()
    assert [record.getMessage() for record in caplog.records] == [
        "for all",
        "nothing was traced: the block has not begun",
    ]
    assert caplog.records[0].name == "memory_profiler.mine"


def test_a_tracer_inside_another_one(facts):
    # Each has the peak of its own block; what is allocated is the same for both.
    assert facts["in both"] == [[MIB], [2 * MIB]]
    assert facts["inner"][1] == [MIB]
    assert facts["outer"] == [[2 * MIB], [2 * MIB]]
    assert facts["rows"] == [[MIB], [MIB, MIB]]
    assert facts["around"] == ["", True]


def test_the_cpu_is_traced_too(facts):
    [peak] = facts["cpu"]
    weight, batch = 100 * 10 * 4, 3 * 100 * 4
    # Weight and gradient, the batch, the result, and what the sum and its gradient take.
    assert 2 * weight + batch <= peak <= 2 * weight + batch + 3 * 10 * 4 * 2 + 64
    assert facts["per device"] == {"cpu": peak, "cuda:0": 0}
    assert facts["left"] == 0
    assert any("Linear" in name for name in facts["modules"])


def test_outside_a_block_nothing_is_made_and_nothing_is_known(capsys):
    tracer = MemoryTracer()
    with pytest.raises(Exception, match=r"call create_fake_tensor\(\) in the block"):
        tracer.create_fake_tensor(3)
    with tracer.track_phase("early"):
        pass
    tracer.print_memory_stats()
    assert capsys.readouterr().out == "WARNING: nothing was traced: the block has not begun\n"
    with pytest.raises(ValueError, match="no such device: 'tpu'"):
        MemoryTracer(device="tpu")


@pytest.mark.parametrize(
    ("text", "level"),
    [("10", 10), ("30", 30), ("error", 40), ("", 20), (None, 20), ("loud", 20)],
)
def test_the_level_comes_from_the_environment(monkeypatch, capsys, text, level):
    monkeypatch.delenv("MEMORY_PROFILER_LOG_LEVEL", raising=False)
    if text is not None:
        monkeypatch.setenv("MEMORY_PROFILER_LOG_LEVEL", text)
    logger = get_logger("mine")
    assert logger.getEffectiveLevel() == level
    assert ("no such level: 'loud'" in capsys.readouterr().err) == (text == "loud")
    configure_logging(level="WARNING")
    assert logger.getEffectiveLevel() == logging.WARNING
    configure_logging("info")
    assert logger.getEffectiveLevel() == logging.INFO
    with pytest.raises(ValueError, match="no such level: 'loud'"):
        configure_logging("loud")
    assert MemoryTracer(log_level="debug")._log.getEffectiveLevel() == logging.DEBUG
    configure_logging(level="WARNING")
    # A tracer's own level does not change the others'.
    assert MemoryTracer(log_level=logging.DEBUG)._log.getEffectiveLevel() == logging.DEBUG
    assert logger.getEffectiveLevel() == logging.WARNING


def test_a_file_gets_what_the_console_gets(tmp_path, capsys):
    path = tmp_path / "some.log"
    configure_logging(level=logging.DEBUG, log_to_file=True, log_file=path, rich_format=False)
    get_logger("mine").debug("one")
    get_logger().info("two")
    configure_logging(level=logging.INFO, rich_format=False)
    get_logger("mine").info("three")
    assert capsys.readouterr().out == "DEBUG: one\ntwo\nthree\n"
    lines = path.read_text().splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == [
        "DEBUG memory_profiler.mine: one",
        "INFO memory_profiler: two",
    ]


def test_without_rich_the_words_are_plain(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "rich", None)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    configure_logging(rich_format=True)
    get_logger("mine").warning("a [bold]word[/] :smile:")
    assert capsys.readouterr().out == "WARNING: a [bold]word[/] :smile:\n"


@pytest.mark.skipif(importlib.util.find_spec("rich") is None, reason="needs rich")
def test_with_rich_the_words_stay_and_terminals_see_colours(monkeypatch, capsys):
    long = "a [bold]word[/] :smile: " + "x" * 300
    configure_logging(rich_format=True)
    get_logger("mine").warning(long)
    assert capsys.readouterr().out == f"WARNING: {long}\n"
    monkeypatch.setenv("FORCE_COLOR", "1")
    configure_logging(rich_format=True)
    get_logger("mine").warning("seen")
    assert "\x1b[" in capsys.readouterr().out
