"""Transformer Engine with fake tensors: its layers against what the compiled package took."""

from __future__ import annotations

import importlib.util
import json

import pytest
from support.checkout import FIXTURES
from support.phantoms import needs_cuda_build

FOLDER = FIXTURES / "transformer_engine"
#: One of each kind: the whole list takes a minute or more.
QUICK = (
    "Linear | none | 512",
    "Linear, parameters in FP8 | delayed | 512",
    "LayerNormLinear | current | 512",
    "LayerNormMLP, SwiGLU | block | 512",
    "DotProductAttention | none | 512",
    "GroupedLinear | current | 512",
    "TransformerLayer | delayed | 512",
    "TransformerLayer, Llama | none | 512",
    "TransformerLayer, FusedAdam | none | 512",
)
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
    # WRONG: autograd adds gradients in place, but not those of a subclass such as fake tensors, so
    # the three views of one projection take one tensor more while their gradients are added up.
    for key, found in wrong.items():
        if key.startswith("MultiheadAttention"):
            wrong[key] = [one for one in found if not one.startswith("backward peak")]
    assert {key: found for key, found in wrong.items() if found} == {}
    return len(fake)


@needs_layers
@needs_cuda_build
def test_layers_take_what_the_compiled_ones_took(programs):
    assert check(programs, *QUICK) == len(QUICK)


@needs_layers
@needs_cuda_build
@pytest.mark.slow
def test_all_layers_take_what_the_compiled_ones_took(programs):
    real = json.loads((FOLDER / "figures.json").read_text())["rows"]
    assert check(programs) == len(real)


#: One process for all that is not about figures: importing torch is most of its time.
BEHAVIOUR = """
import json, os, sys
import floodmark

def state():
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    names = sorted(name for name in sys.modules if name.startswith("transformer_engine"))
    shells = sorted(name for name, one in sys.modules.items() if type(one).__name__ == "_Shell")
    variables = {name: value for name, value in os.environ.items() if name.startswith("NVTE_")}
    patched = ["data_ptr" in vars(torch.UntypedStorage), "data_ptr" in vars(FakeTensor)]
    return [names, shells, variables, patched, [type(one).__module__ for one in sys.meta_path]]

found = {}
with floodmark.estimate(engine="fake", without=["transformer-engine"]):
    import torch
    try:
        import transformer_engine.pytorch
        found["without"] = ""
    except Exception as error:
        found["without"] = type(error).__name__
found["before"] = state()

with floodmark.estimate(engine="fake") as est:
    import transformer_engine.pytorch as te
    layer = te.Linear(64, 64)
    x = torch.randn(48, 64, device="cuda", requires_grad=True)
    layer(x).sum().backward()
    grouped = te.GroupedLinear(3, 64, 32, bias=False)
    known = grouped(x, [8, 16, 24])
    grouped(x, torch.randint(1, 9, (3,), device="cuda")).sum().backward()
    shapes = [layer.weight.grad.shape, known.shape, grouped.weight0.grad.shape]
    found["shapes"] = [list(shape) for shape in shapes]
found["notes"] = est._session.setting.notes
found["after"] = state()
try:
    te.module.linear.tex.quantize(x, None)
except RuntimeError as error:
    found["refusal"] = str(error)

try:
    with floodmark.estimate(engine="fake"):
        import transformer_engine.pytorch as again
        second = again.Linear(64, 64)
        raise KeyError("the program's own")
except KeyError:
    found["again"] = state()
found["same class"] = type(layer) is type(second)
print(json.dumps(found))
"""


@needs_layers
@needs_cuda_build
@pytest.mark.skipif(
    importlib.util.find_spec("transformer_engine_torch") is not None, reason="the extension is here"
)
def test_the_replaced_extension_exists_only_in_the_block(programs):
    found = json.loads(programs.run(BEHAVIOUR).stdout.splitlines()[-1])
    # Switched off, the package is as it is: without its compiled part it cannot be imported.
    assert found["without"] in ("RuntimeError", "FileNotFoundError")
    # Everything is as before, also after an exception.
    assert found["before"] == found["after"]
    assert found["before"] == found["again"]
    # What was imported on the stand-in waits for the next estimate, and refuses until then.
    assert found["same class"]
    assert "only an estimate can call it" in found["refusal"]
    assert found["shapes"] == [[64, 64], [48, 32], [32, 64]]
    assert any("Transformer Engine" in note for note in found["notes"])
    assert any("split evenly" in note for note in found["notes"])
