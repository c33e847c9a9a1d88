"""On a phantom GPU the program's own tools see the program, and nothing of ours.

Each test runs a program of its own: CUDA begins once in a process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import floodmark

pytestmark = pytest.mark.skipif(torch.version.cuda is None, reason="torch has no CUDA in it")

BEGIN = """
import json, sys, floodmark
if sys.argv[1] == "cuda":
    with floodmark.phantom("h200"):
        import torch
import torch
D = sys.argv[1]
"""


def seen(tmp_path: Path, code: str, device: str) -> object:
    """What the program prints last, on the device."""
    path = tmp_path / "program.py"
    path.write_text(BEGIN + code)
    command = [sys.executable, str(path), device]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


#: Small tensors with values that are followed, and functions of all kinds.
MODEL = """
from torch import nn
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)).to(D)
x = torch.randn(2, 4, device=D)
ids = torch.arange(6, device=D)
def work():
    y = model(x)
    torch.ones(3, device=D).add_(1)
    torch.rand(5, device=D)
    (ids * 2 + 1)[ids > 2].sum().item()
    (y.sum() * 1e-3).backward()
"""


def test_a_dispatch_mode_sees_the_operators_that_it_sees_on_the_host(tmp_path: Path) -> None:
    code = (
        MODEL
        + """
from torch.utils._python_dispatch import TorchDispatchMode
found = []
class Log(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found.append(str(func))
        return func(*args, **(kwargs or {}))
with Log():
    model(x)
forward = len(found)
with Log():
    work()
print(json.dumps([forward, found]))
"""
    )
    forward, found = seen(tmp_path, code, "cuda")  # type: ignore[misc]
    assert [forward, found] == seen(tmp_path, code, "cpu")
    assert found[:forward] == [
        *("aten.t.default", "aten.addmm.default", "aten.relu.default", "aten.detach.default"),
        *("aten.t.default", "aten.addmm.default"),
    ]


def test_a_function_mode_sees_the_functions_that_it_sees_on_the_host(tmp_path: Path) -> None:
    code = (
        MODEL
        + """
from torch.overrides import TorchFunctionMode
found = []
class Log(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        found.append(func.__name__)
        return func(*args, **(kwargs or {}))
with Log():
    work()
print(json.dumps(found))
"""
    )
    found = seen(tmp_path, code, "cuda")
    assert found == seen(tmp_path, code, "cpu")
    assert "linear" in found  # type: ignore[operator]


def test_a_profiler_sees_no_operator_of_ours(tmp_path: Path) -> None:
    # `aten::add` and others are called as often; on the device there are copies between both.
    code = (
        MODEL
        + """
from collections import Counter
from torch.profiler import profile, ProfilerActivity
work()
with profile(activities=[ProfilerActivity.CPU]) as prof:
    work()
names = ("aten::add", "aten::add_", "aten::mul", "aten::gt", "aten::frombuffer",
         "aten::as_strided", "aten::ones", "aten::rand", "aten::addmm", "aten::random_")
found = Counter(e.name for e in prof.events() if e.name in names)
del found["aten::as_strided"]
print(json.dumps(sorted(found.items())))
"""
    )
    assert seen(tmp_path, code, "cuda") == seen(tmp_path, code, "cpu")


def test_the_recorder_sees_no_host_memory_of_ours(tmp_path: Path) -> None:
    program = """
import torch
with torch.device("cuda"):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
    ones, noise, ids = torch.ones(3), torch.randn(2, 4), torch.arange(6)
for _ in range(3):
    model(noise).sum().backward()
    torch.cat([ids, ids])
"""
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, "-m", "floodmark", "estimate", "--gpu", "h200", "-o", "t.flood"]
    done = subprocess.run(
        [*command, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    trace = floodmark.Trace.open(tmp_path / "t.flood")
    assert trace.lifetimes("cuda:0") != []
    assert trace.lifetimes("cpu") == []


def test_jit_trace_sees_the_program_alone(tmp_path: Path) -> None:
    code = """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    def forward(self, x):
        counts = torch.arange(3, device=D) + 1
        return self.inner(x) * counts.sum() + torch.ones(4, device=D)
traced = torch.jit.trace(Model().to(D), torch.randn(2, 4, device=D))
kinds = [node.kind() for node in traced.inlined_graph.nodes()]
print(json.dumps(kinds))
"""
    kinds = seen(tmp_path, code, "cuda")
    assert kinds == seen(tmp_path, code, "cpu")
    assert "aten::arange" in kinds  # type: ignore[operator]


def test_aot_compile_does_not_see_our_mode(tmp_path: Path) -> None:
    code = """
torch._dynamo.config.enable_aot_compile = True
def f(x):
    return x.long() + 1
compiled = torch.compile(f, fullgraph=True, dynamic=False, backend="inductor")
x = torch.ones(8, dtype=torch.int32, device=D)
ahead = compiled.aot_compile(((x,), {}))
y = ahead(x)
# The mode is back: this is followed.
print(json.dumps([str(y.dtype), list(y.shape), (x + 1).tolist()]))
"""
    assert seen(tmp_path, code, "cuda") == ["torch.int64", [8], [2] * 8]


def test_export_does_not_see_our_mode(tmp_path: Path) -> None:
    code = """
class Model(torch.nn.Module):
    def forward(self, x):
        return x.long() + torch.ones(3, device=x.device).sum()
x = torch.ones(8, dtype=torch.int32, device=D)
def kinds(strict):
    graph = torch.export.export(Model(), (x,), strict=strict).graph
    return [str(node.target) for node in graph.nodes]
print(json.dumps([kinds(True), kinds(False)]))
"""
    assert seen(tmp_path, code, "cuda") == seen(tmp_path, code, "cpu")
