"""Plugins: found by entry point, left out by name, and undone whatever happens."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest
from support.checkout import ROOT
from support.phantoms import needs_cuda_build
from support.programs import Programs

GUIDE = ROOT / "docs" / "guides" / "plugins.md"

pytestmark = needs_cuda_build

#: A library with a kernel that cannot run here.
LIBRARY = """
def large_rows(matrix, threshold):
    raise SystemError("there is no kernel for this machine")
"""


def code_blocks() -> dict[str, str]:
    """The guide's programs, by the name in their first line."""
    found = re.findall(r"```python\n# (\S+)\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    return dict(found)


@pytest.fixture
def installed(tmp_path: Path) -> Programs:
    """The guide's example, installed in a folder as pip would."""
    programs = Programs(tmp_path)
    blocks = code_blocks()
    programs.write(LIBRARY, "pebbles.py")
    programs.write(blocks["pebbles_floodmark.py"], "pebbles_floodmark.py")
    programs.write(blocks["program.py"], "program.py")
    programs.write(
        "Metadata-Version: 2.1\nName: pebbles\nVersion: 1\n", "pebbles-1.dist-info/METADATA"
    )
    entry = re.search(
        r"```toml\n\[project\.entry-points\.\"(.*?)\"\]\n(.*?)```", GUIDE.read_text(), re.DOTALL
    )
    assert entry is not None
    lines = entry[2].replace('"', "")
    programs.write(f"[{entry[1]}]\n{lines}", "pebbles-1.dist-info/entry_points.txt")
    return programs


def test_the_guides_plugin_is_found_and_answers(installed: Programs) -> None:
    done = installed.python("program.py")
    assert done.returncode == 0, done.stderr
    shape, note = done.stdout.splitlines()
    assert shape == "(512, 512)"
    assert note == "pebbles: half of the rows are assumed to be large"


def test_a_plugin_that_is_left_out_does_nothing(installed: Programs) -> None:
    program = installed.folder / "program.py"
    program.write_text(
        program.read_text().replace('engine="fake"', 'engine="fake", without=["pebbles"]')
    )
    done = installed.python("program.py")
    assert done.returncode == 1
    assert "there is no kernel for this machine" in done.stderr


RESTORED = """
import importlib, json, sys, threading
import floodmark
from floodmark import plugins

with floodmark.estimate(engine="fake"):
    import torch, torch.distributed, torch.optim, torch.utils.checkpoint
NAMES = sys.argv[1:]
for name in NAMES:
    importlib.import_module(name)

def state():
    found = {}
    owners = [torch.Tensor, torch.UntypedStorage, torch._subclasses.FakeTensor, threading.Thread]
    owners += [torch.nn.Module, torch.utils.data.DataLoader, torch.amp.GradScaler]
    for module in list(sys.modules.values()):
        name = getattr(module, "__name__", "")
        if name.startswith(("torch", "safetensors", "transformers.generation", "megatron")):
            owners.append(module)
            owners += [v for v in list(vars(module).values()) if isinstance(v, type)]
    for owner in owners:
        for key, value in list(vars(owner).items()):
            if key in ("__getattr__", "__dir__"):
                continue
            # After a block torch sees no GPU, on purpose.
            if owner is torch.cuda and key in ("is_available", "device_count"):
                continue
            if callable(value) or isinstance(value, (staticmethod, classmethod, property)):
                found[getattr(owner, "__module__", ""), getattr(owner, "__name__", ""), key] = value
    return found

def changed(before):
    # What a lazy module imports in between is new, and not patched.
    after = state()
    return sorted(".".join(k) for k, v in before.items() if k in after and after[k] is not v)

def ours():
    # Whatever is left of us in a library, by the module that a function was written in.
    return sorted(
        ".".join(k) for k, v in state().items()
        if (getattr(v, "__module__", None) or "").startswith("floodmark.")
    )

before = state()
entered, left = [], []
for fails in (False, True):
    try:
        with floodmark.estimate(engine="fake"):
            entered.append(len(changed(before)))
            model = torch.nn.Linear(4, 4).cuda()
            model(torch.randn(2, 4, device="cuda")).sum().backward()
            if fails:
                raise KeyError("the program's own")
    except KeyError:
        left.append("raised")
    left.append([changed(before), ours()])
print(json.dumps([entered, left]))
"""


def _installed_libraries() -> list[str]:
    """Those of our plugins' libraries that are here, with the parts that are patched."""
    parts = {
        "safetensors": ["safetensors.torch"],
        "transformers": [
            "transformers.generation.stopping_criteria",
            "transformers.generation.utils",
        ],
    }
    return [part for top, all_ in parts.items() if importlib.util.find_spec(top) for part in all_]


def test_what_was_patched_is_as_it_was(tmp_path: Path) -> None:
    done = Programs(tmp_path).run(RESTORED, *_installed_libraries())
    entered, left = json.loads(done.stdout.splitlines()[-1])
    assert all(count > 10 for count in entered), "nothing was patched: the test looks elsewhere"
    nothing = [[], []]
    assert left == [nothing, "raised", nothing]
