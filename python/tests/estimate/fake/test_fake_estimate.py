"""`floodmark.estimate(engine="fake")`: what it answers, and that it leaves nothing behind."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from support.answer_schema import check_answer
from support.programs import Programs

MIB = 1 << 20

#: One process for many questions: each costs an import of torch otherwise. With torch at first.
PROGRAM = """
import gc, json, pathlib, threading
import torch
from torch.optim import optimizer as optimizers
from torch.utils import _foreach_utils as foreach
import floodmark
from torch.utils import data

found = {}
WATCHED = {
    "torch": torch, "torch.cuda": torch.cuda, "torch.cuda.memory": torch.cuda.memory,
    "torch.optim.optimizer": optimizers, "DataLoader": data.DataLoader,
    "UntypedStorage": torch.UntypedStorage, "FakeTensor": torch._subclasses.FakeTensor,
    "Tensor": torch.Tensor, "Module": torch.nn.Module, "Optimizer": torch.optim.Optimizer,
    "GradScaler": torch.amp.GradScaler, "Thread": threading.Thread,
}
# The phantom's library stays in the process, and torch must not take it for a GPU: these two hide
# it, anew after each block. The other remembers what one of them found.
HIDING = {"torch.cuda.is_available", "torch.cuda.device_count", "torch.cuda._cached_device_count"}
LISTS = ("_foreach_supported_types",)

def seen():
    names = {(place, name): id(value) for place, owner in WATCHED.items()
             for name, value in vars(owner).items() if not name.startswith("__")}
    lists = optimizers, foreach
    kinds = [list(getattr(owner, name, [])) for owner in lists for name in LISTS]
    modes = torch._C._len_torch_dispatch_stack(), torch.autograd.is_multithreading_enabled()
    return names, kinds, modes

def changed(before):
    after = seen()
    names = [f"{place}.{name}" for place, name in before[0].keys() | after[0].keys()
             if before[0].get((place, name)) != after[0].get((place, name))]
    return sorted(set(names) - HIDING), before[1] == after[1], before[2] == after[2]

def train(steps=2):
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU()).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(steps):
        with floodmark.phase("predict"):
            loss = model(torch.randn(256, 1024, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        floodmark.step()

# The phantom's library stays where torch has CUDA, and its devices are hidden: both once. So does
# what torch remembers of devices once it was asked.
with floodmark.estimate(engine="fake", path="first.flood"):
    train(1)
    torch.cuda.get_device_properties(0)

before = seen()
with floodmark.estimate(engine="fake", path="a.flood") as est:
    train()
    inside = est.level()
    found["is_available"] = torch.cuda.is_available(), torch.cuda.device_count()
    properties = torch.cuda.get_device_properties(0)
    found["names"] = properties.name, torch.cuda.get_device_name(), torch.cuda.get_device_name(0)
    found["properties"] = repr(properties), properties.major
found["changed"] = changed(before)
found["engine"] = est.engine
found["level"] = inside
found["peak"] = est.peak().by_category().allocated
found["simulated"] = str(est.trace.simulate())
found["advice"] = str(est.trace.advise())
est.trace.export("a.json", to="speedscope")
found["exported"] = pathlib.Path("a.json").stat().st_size
found["text"] = str(est)
reports = {}
for question in ("line", "module", "op", "category", "phase", "tensor"):
    report = est.report(by=question)
    reports[question] = report.to_dict()
    assert str(report)
found["reports"] = reports
found["available_after"] = torch.cuda.is_available()

class Mine(Exception): pass
before = seen()
try:
    with floodmark.estimate(engine="fake", path="b.flood") as est:
        torch.empty(10, device="cuda")
        raise Mine("mine")
except Mine as error:
    found["raised"] = str(error)
found["changed_by_error"] = changed(before)
found["ended"] = json.loads(est.estimate.to_json())["ended"]

try:
    with floodmark.estimate(engine="fake", memory="2GiB", path="c.flood") as small:
        kept = [torch.empty(1 << 28, device="cuda") for _ in range(4)]
except torch.cuda.OutOfMemoryError as error:
    found["oom"] = str(error)
found["oom_estimate"] = json.loads(small.estimate.to_json())

def ask(**more):
    with floodmark.estimate(engine="fake", path="d.flood", **more) as est:
        x = torch.randn(64, device="cuda")
        said = int(x.argmax()) # READ
    return said, json.loads(est.estimate.to_json())

lines = pathlib.Path(__file__).read_text().splitlines()
line = 1 + lines.index("        said = int(x.argmax()) # READ")
found["line"] = line
found["read"] = ask()
found["given"] = ask(answers={f"{pathlib.Path(__file__).name}:{line}": 3})

def error_of(run):
    try:
        run()
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def nested():
    with floodmark.estimate(engine="fake", path="e.flood"):
        with floodmark.estimate(engine="fake", path="f.flood"):
            pass

def inside_a_recording():
    with floodmark.trace("g.flood"), floodmark.estimate(engine="fake", path="h.flood"):
        pass

before = seen()
found["nested"] = error_of(nested)
found["inside_a_recording"] = error_of(inside_a_recording)
found["changed_by_refusals"] = changed(before)
found["no_engine"] = error_of(lambda: floodmark.estimate(engine="magic"))
found["no_rank"] = error_of(lambda: floodmark.estimate(engine="fake", world=4, rank=4))

batches = data.DataLoader(data.TensorDataset(torch.arange(32.0).view(8, 4)), batch_size=2)
with floodmark.estimate(engine="fake", path="i.flood", without=["torch.distributed"]) as est:
    sums = [batch.cuda().sum() for (batch,) in batches]
    found["batches"] = [type(total).__name__ for total in sums]
gc.collect()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def programs_of_all(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(tmp_path_factory.mktemp("fake"))


@pytest.fixture(scope="module")
def found(programs_of_all: Programs) -> Any:
    done = programs_of_all.run(PROGRAM, timeout=600)
    return json.loads(done.stdout.splitlines()[-1])


#: Nothing differs, and lists and modes are as they were.
UNTOUCHED = [[], True, True]


def test_all_is_as_it_was_after_the_block(found: Any) -> None:
    assert found["changed"] == UNTOUCHED
    assert found["available_after"] is torch.cuda.is_available()


def test_all_is_as_it_was_after_an_error(found: Any) -> None:
    assert found["raised"] == "mine"
    assert found["changed_by_error"] == UNTOUCHED
    assert found["ended"] == "failed"


def test_a_gpu_is_there_inside_and_the_engine_is_named(found: Any) -> None:
    assert found["is_available"] == [True, 1]
    assert set(found["names"]) == {"NVIDIA H200 (fake tensors)"}
    text, major = found["properties"]
    assert "NVIDIA H200 (fake tensors)" in text
    assert major == 9
    assert found["engine"] == "fake"
    assert "Engine `fake`" in found["text"]


def test_the_level_inside_is_the_one_of_the_trace(found: Any) -> None:
    _, peak, _, peak_reserved = found["level"]
    assert found["peak"] == peak
    assert found["reports"]["line"]["reserved"] <= peak_reserved
    # Weights, gradients, states and what AdamW makes for itself: 4 MiB each.
    assert peak >= 5 * 4 * MIB


def test_every_report_is_of_the_same_bytes(found: Any) -> None:
    for by, report in found["reports"].items():
        assert report["by"] == by
        assert report["allocated"] == found["peak"], by
        # A module's row has those of its parts, too.
        if by != "module":
            assert sum(row["bytes"] for row in report["rows"]) == found["peak"], by
    rows = {
        by: [row["location"] for row in report["rows"]] for by, report in found["reports"].items()
    }
    assert any("program.py" in where for where in rows["line"])
    assert any("aten::" in where for where in rows["op"])
    assert {"parameter", "gradient", "optimizer state"} <= set(rows["category"])
    assert any("optimizer" in where for where in rows["phase"])


def test_the_trace_is_simulated_judged_and_exported(found: Any) -> None:
    assert "MiB" in found["simulated"]
    assert found["advice"]
    assert found["exported"] > 1000


def test_a_program_does_not_fit_on_a_small_gpu(found: Any) -> None:
    assert found["oom"].startswith("CUDA out of memory. Tried to allocate 1024.00 MiB.")
    answer = found["oom_estimate"]
    assert (answer["fits"], answer["ended"]) == (False, "out_of_memory")
    assert answer["devices"][0]["failed"]["request"]["bytes"] == 1024 * MIB


def test_a_read_is_listed_with_its_line_and_can_be_given(found: Any) -> None:
    said, answer = found["read"]
    assert said == 0
    (read,) = answer["reads"]
    assert (read["line"], read["count"]) == (found["line"], 1)
    assert read["file"].endswith("program.py")
    said, answer = found["given"]
    assert said == 3
    assert answer["reads"][0]["assumed"] == "3"


def test_an_estimate_in_another_is_refused_and_one_in_a_recording_is_not(found: Any) -> None:
    refused = "FloodmarkError: cannot estimate: an estimate with fake tensors is open"
    assert found["nested"].startswith(refused)
    assert found["inside_a_recording"] is None
    assert found["changed_by_refusals"] == UNTOUCHED


def test_wrong_questions_are_refused(found: Any) -> None:
    assert found["no_engine"] == "ValueError: no such engine: 'magic'; write `phantom` or `fake`"
    assert found["no_rank"] == "ValueError: there is no rank 4 in a world of 4"


def test_what_a_loader_gives_is_fake(found: Any) -> None:
    assert found["batches"] == ["FakeTensor"] * 4


SCRIPT = """
import torch

model = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.randn(64, 1024, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
assert type(model.weight.data).__name__ == "FakeTensor"
"""


def test_the_command_line_has_the_engine(programs: Programs) -> None:
    programs.write(SCRIPT, "train.py")
    words = ["estimate", "--engine", "fake", "--json", "-o", "a.flood", "train.py"]
    done = programs.floodmark(*words)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    check_answer("estimate", answer)
    assert (answer["engine"], answer["fits"], answer["steps"]) == ("fake", True, 3)
    assert "Simulating NVIDIA H200, with fake tensors" in done.stderr


@pytest.mark.slow
def test_a_fit_has_the_engine(programs: Programs) -> None:
    source = SCRIPT.replace("import torch", "import sys, torch", 1).replace(
        "torch.randn(64,", "torch.randn(int(sys.argv[2]),"
    )
    programs.write(source, "train.py")
    words = ["fit", "--engine", "fake", "--memory", "2GiB", "--json", "--vary", "N=64,1000000"]
    done = programs.floodmark(*words, "train.py", "--batch", "{N}", timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    check_answer("fit", found)
    assert found["largest"] == 64


LATER = """
import json
import floodmark

with floodmark.estimate(path="a.flood") as est:
    import torch

    torch.ones(1 << 20, device="cuda")
    kind = type(torch.ones(1, device="cuda")).__name__
print(json.dumps([est.engine, kind, est.estimate.peak_allocated, torch.version.cuda is not None]))
"""


def test_the_default_is_the_phantom_where_torch_has_cuda(programs: Programs) -> None:
    done = programs.run(LATER)
    engine, kind, peak, has_cuda = json.loads(done.stdout.splitlines()[-1])
    wanted = ("phantom", "Tensor") if has_cuda else ("fake", "FakeTensor")
    assert (engine, kind) == wanted
    assert peak >= 4 * MIB
