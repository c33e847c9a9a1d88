"""`fit` and `plan` fork their tries from a process that has imported torch: same answers."""

from __future__ import annotations

import json
import site
from pathlib import Path

import pytest
from support.phantoms import needs_cuda_build

pytestmark = needs_cuda_build

#: Writes down what it finds imported, and allocates as much as its argument says.
PROGRAM = """
    import sys
    from pathlib import Path
    with Path("seen.txt").open("a") as file:
        print("torch" in sys.modules, "helper" in sys.modules, file=file)
    BEFORE
    import torch
    import helper

    model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        model(torch.randn(int(sys.argv[1]) << 12, 256, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""
FIT = ("fit", "--json", "--no-cache", "--memory", "1GiB", "--vary", "B=1..20", "p.py", "{B}")


def fit(programs, *, warm, before="", **environment):
    programs.write(PROGRAM.replace("BEFORE", before), "p.py")
    programs.write("", "helper.py")
    seen = programs.folder / "seen.txt"
    seen.unlink(missing_ok=True)
    done = programs.floodmark(*FIT, env={**environment, "FLOODMARK_WARM_PROCESS": str(int(warm))})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for tried in found["tries"]:
        del tried["seconds"]
    return found, seen.read_text().splitlines()


def test_a_fork_answers_what_a_new_process_does(programs):
    warm, seen = fit(programs, warm=True)
    fresh, seen_fresh = fit(programs, warm=False)
    assert warm == fresh
    assert len(warm["tries"]) > 3
    assert set(seen_fresh) == {"False False"}
    # The first is a new process; the modules of the program itself are imported by no other.
    assert seen[0] == "False False"
    assert set(seen[1:]) == {"True False"}
    # Each try, and the one that proves the warm process.
    assert len(seen) == len(warm["tries"]) + 1


def test_libraries_may_ask_for_a_gpu_and_start_threads_that_know_of_forks(programs, monkeypatch):
    pytest.importorskip("pyarrow")
    base = programs.folder / "user"
    monkeypatch.setenv("PYTHONUSERBASE", str(base))
    monkeypatch.setattr(site, "USER_BASE", None)
    monkeypatch.setattr(site, "USER_SITE", None)
    packages = Path(site.getusersitepackages())
    packages.mkdir(parents=True)
    (packages / "asking.py").write_text(
        "import pyarrow, torch\n"
        "assert torch.cuda.is_available() and torch.cuda.device_count() == 1\n"
        "assert torch.accelerator.current_accelerator(check_available=True).type == 'cuda'\n"
    )
    installed = {"PYTHONUSERBASE": str(base), "PYTHONPATH": str(packages)}
    _, seen = fit(programs, warm=True, before="import asking", **installed)
    assert set(seen[1:]) == {"True False"}


def test_where_the_program_sets_the_allocator_first_nothing_is_forked(programs):
    before = "import os; os.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'expandable_segments:True'"
    warm, seen = fit(programs, warm=True, before=before)
    assert set(seen) == {"False False"}
    assert warm == fit(programs, warm=False, before=before)[0]


def test_a_program_that_leaves_at_once_is_answered_by_new_processes(programs):
    programs.write("import os, torch\ntorch.ones(8, device='cuda')\nos._exit(0)", "p.py")
    words = ("fit", "--json", "--no-cache", "--vary", "B=1..3", "p.py", "{B}")
    done = programs.floodmark(*words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["largest"] == 3


#: Trains with data of a size that its first lines choose.
TRAINED = """
    import sys
    {before}
    import torch

    torch.ones(int(sys.argv[1]) << 20, device="cuda")
    model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(6):
        {step}
        model(torch.randn(rows, 256, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def said_and_tried(programs, before, step):
    """What `fit` says on stderr, and how many tries it made."""
    programs.write(TRAINED.format(before=before, step=step), "p.py")
    done = programs.floodmark(*FIT)
    assert done.returncode == 0, done.stderr
    return done.stderr, json.loads(done.stdout)["tries"]


@pytest.mark.parametrize(
    ("before", "step"),
    [
        ("import random", "rows = random.randint(1000, 9000)"),
        ("import numpy", "rows = int(numpy.random.randint(1000, 9000))"),
        ("", "rows = sum(n << 9 for n, _ in enumerate(set('abcdef')) if _ in 'abc')"),
        (
            "class Cycle: pass",
            "rows = 4096; one = Cycle(); one.me = one; one.x = torch.ones(1 << 20, device='cuda')",
        ),
    ],
    ids=["random", "numpy", "hashes", "cycles"],
)
def test_what_differs_by_chance_is_the_same_in_every_try(programs, before, step):
    said, tries = said_and_tried(programs, before, step)
    assert "new process" not in said
    assert "in each run" not in said
    assert len(tries) > 3


def test_what_differs_in_a_fork_is_said_with_its_first_allocation(programs):
    said, _ = said_and_tried(programs, "is_fork = 'torch' in sys.modules", "rows = 4096 + is_fork")
    line = next(line for line in said.splitlines() if "new process" in line)
    assert "a fork does not answer as the first try did" in line
    assert "p.py:11" in line
    assert "in the first try" in line


def test_a_program_that_differs_in_each_run_is_forked_all_the_same(programs):
    before = "import os, time"
    said, _ = said_and_tried(programs, before, "rows = 4096 + time.time_ns() // 1000 % 4096")
    assert "The program does something else in each run" in said
    assert "new process" not in said
