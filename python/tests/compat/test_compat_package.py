"""`floodmark_compat` lies beside `floodmark`: each import is cheap, and one way."""

from __future__ import annotations

import pkgutil

import pytest
from support.compat_programs import ON_A_PHANTOM
from support.phantoms import needs_cuda_build

import floodmark_compat

MODULES = [
    module.name
    for module in pkgutil.iter_modules(floodmark_compat.__path__)
    if not module.name.startswith("_")
]

#: Every module of floodmark, but for a script that runs where it is imported.
EVERYTHING = """
import importlib, pkgutil, sys
import floodmark
for module in pkgutil.walk_packages(floodmark.__path__, "floodmark."):
    if not module.name.endswith(("__main__", "sitecustomize", "small_step")):
        try:
            importlib.import_module(module.name)
        except ImportError as error:
            # A library that is not installed.
            assert not (error.name or "").startswith("floodmark"), error
print(sorted(name for name in sys.modules if name.startswith("floodmark_compat")))
"""


def test_floodmark_imports_nothing_of_it(programs):
    assert programs.run(EVERYTHING).stdout == "[]\n"


def test_five_tools_have_a_module():
    assert MODULES == [
        "gpu_optimizer",
        "memory_profiler",
        "memory_tracker",
        "pytorch_mem_profiler",
        "pytorch_mem_tracer",
    ]


@needs_cuda_build
@pytest.mark.parametrize("module", MODULES)
def test_an_import_does_not_begin_cuda(programs, module):
    say = "print(torch.cuda.is_initialized())"
    lines = [ON_A_PHANTOM, f"import floodmark_compat.{module}", say, "torch.ones(1).cuda()", say]
    done = programs.run("\n".join(lines))
    assert done.stdout == "False\nTrue\n"


def test_an_import_of_the_package_imports_no_tool_and_no_torch(programs):
    script = "import floodmark_compat, sys\nprint([n for n in sys.modules if n in {names!r}])"
    names = {"torch", "floodmark", *(f"floodmark_compat.{module}" for module in MODULES)}
    assert programs.run(script.format(names=names)).stdout == "[]\n"


#: Code of floodmark is no part of a program's stacks.
OWN_FRAMES = """
import json, torch
import floodmark
from floodmark_compat.memory_tracker import MemoryTracker
model = torch.nn.Linear(64, 64)
tracker = MemoryTracker()
with floodmark.trace(devices=["cpu"]) as recorded:
    tracker.start_monitor(model)
    kept = model(torch.ones(5000, 64))
    tracker.stop()
rows = recorded.trace._core.export(to="csv", device="cpu").decode().splitlines()
print([row for row in rows if "floodmark_compat" in row])
print(len(rows) > 3)
"""


def test_its_frames_are_no_part_of_a_stack(programs):
    assert programs.run(OWN_FRAMES).stdout == "[]\nTrue\n"
