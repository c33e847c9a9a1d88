"""Transformer Engine with fake tensors: its layers against what the compiled package took."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from phantoms import needs_cuda_build

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "transformer_engine"
#: One of each kind: the whole list takes a minute, and `make te` runs it.
QUICK = ("Linear | ", "LayerNormLinear | ", "LayerNormMLP, SwiGLU | ", "TransformerLayer | ")
MIB = 1 << 20

needs_layers = pytest.mark.skipif(
    importlib.util.find_spec("transformer_engine") is None, reason="needs transformer_engine"
)


def differences(real: dict, fake: dict) -> list[str]:
    """What a row has other than the compiled package, beyond 1 % and 1 MiB."""
    found = []
    for name, value in real.items():
        if isinstance(value, int):
            if abs(value - fake[name]) > max(value / 100, MIB):
                found.append(f"{name}: {fake[name]:,} instead of {value:,}")
        elif fake[name] != value:
            found.append(f"{name}: {fake[name]} instead of {value}")
    return found


def check(programs, *wanted: str) -> int:
    """Runs the layers whose names begin so; returns how many rows were right."""
    done = programs.python(FOLDER / "layers.py", "fake", *wanted, timeout=600)
    assert done.returncode == 0, done.stderr
    fake = json.loads(done.stdout.splitlines()[-1])["rows"]
    real = json.loads((FOLDER / "figures.json").read_text())["rows"]
    wrong = {key: differences(real[key], row) for key, row in fake.items()}
    assert {key: found for key, found in wrong.items() if found} == {}
    return len(fake)


@needs_layers
@needs_cuda_build
def test_layers_take_what_the_compiled_ones_took(programs):
    assert check(programs, *QUICK) == 32


@needs_layers
@needs_cuda_build
@pytest.mark.slow
def test_all_layers_take_what_the_compiled_ones_took(programs):
    real = json.loads((FOLDER / "figures.json").read_text())["rows"]
    assert check(programs) == len(real)


RESTORES = """
import json, os, sys
import floodmark

def state():
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    names = sorted(name for name in sys.modules if name.startswith("transformer_engine"))
    packages = ("onnx", "onnxscript", "einops", "pydantic")
    shells = [name for name in packages if type(sys.modules.get(name)).__name__ == "_Shell"]
    variables = {name: value for name, value in os.environ.items() if name.startswith("NVTE_")}
    patched = ["data_ptr" in vars(torch.UntypedStorage), "data_ptr" in vars(FakeTensor)]
    finders = [type(finder).__module__ for finder in sys.meta_path]
    return [names, shells, variables, patched, finders]

def layer():
    import transformer_engine.pytorch as te
    return te.Linear(64, 64)

with floodmark.estimate(engine="fake"):
    import torch
    before_imports = None
before = state()
with floodmark.estimate(engine="fake") as est:
    first = layer()
    x = torch.randn(16, 64, device="cuda", requires_grad=True)
    first(x).sum().backward()
    assert type(first).__name__ == "Linear" and first.weight.grad.shape == (64, 64)
    notes = est._block.setting.notes
after = state()
try:
    with floodmark.estimate(engine="fake"):
        second = layer()
        raise KeyError("the program's own")
except KeyError:
    pass
again = state()
try:
    import transformer_engine_torch
    stays = True
except ImportError:
    stays = False
try:
    sys.modules[type(first).__module__]
    is_there = True
except KeyError:
    is_there = False
print(json.dumps({
    "before": before, "after": after, "again": again,
    "same class": type(first) is type(second),
    "notes": notes, "stays": stays, "is there": is_there,
}))
"""


@needs_layers
@needs_cuda_build
def test_everything_is_as_before_also_after_an_exception(programs):
    found = json.loads(programs.run(RESTORES).stdout.splitlines()[-1])
    assert found["before"] == found["after"]
    assert found["before"] == found["again"]
    # What was imported on the stand-in waits for the next estimate.
    assert found["same class"]
    assert not found["is there"]
    assert any("Transformer Engine" in note for note in found["notes"])


WITHOUT = """
import floodmark
with floodmark.estimate(engine="fake", without=["transformer-engine"]):
    try:
        import transformer_engine.pytorch
    except Exception as error:
        print(type(error).__name__)
"""


@needs_layers
@needs_cuda_build
@pytest.mark.skipif(
    importlib.util.find_spec("transformer_engine_torch") is not None, reason="the extension is here"
)
def test_switched_off_the_package_is_as_it_is(programs):
    assert programs.run(WITHOUT).stdout.strip() in ("RuntimeError", "FileNotFoundError")


LATER = """
import floodmark
with floodmark.estimate(engine="fake"):
    import torch
    import transformer_engine.pytorch as te
    layer = te.Linear(64, 64)
    x = torch.randn(16, 64, device="cuda")
try:
    te.module.linear.tex.quantize(x, None)
except RuntimeError as error:
    print(error)
"""


@needs_layers
@needs_cuda_build
def test_a_kernel_that_is_stood_in_for_refuses_after_the_estimate(programs):
    said = programs.run(LATER).stdout
    assert "only an estimate can call it" in said


SPLITS = """
import floodmark, json
with floodmark.estimate(engine="fake") as est:
    import torch
    import transformer_engine.pytorch as te
    layer = te.GroupedLinear(3, 64, 32, bias=False)
    x = torch.randn(48, 64, device="cuda", requires_grad=True)
    known = layer(x, [8, 16, 24])
    splits = torch.randint(1, 9, (3,), device="cuda")
    layer(x, splits).sum().backward()
    shapes = [list(known.shape), list(layer.weight0.grad.shape)]
    notes = est._block.setting.notes
print(json.dumps([shapes, notes]))
"""


@needs_layers
@needs_cuda_build
def test_groups_of_unknown_sizes_are_even_and_it_is_said(programs):
    shapes, notes = json.loads(programs.run(SPLITS).stdout.splitlines()[-1])
    assert shapes == [[48, 32], [32, 64]]
    assert any("split evenly" in note for note in notes)
