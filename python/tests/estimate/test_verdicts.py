"""What verdicts of `estimate`, `fit` and `plan` rest on: whole recordings, steps, one program."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from support.answer_schema import check_answer
from support.namespaces import needs_namespaces
from support.phantoms import needs_cuda_build

import floodmark

pytestmark = needs_cuda_build

MIB = 1 << 20
GIB = 1 << 30

#: Files get no larger than 32 KiB after the first step, and the peak comes at the end.
STOPPED = """
    import resource, torch

    model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(8))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(200):
        model(torch.randn(8, 64, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 0:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 15, 1 << 15))
    last = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
"""

#: The sizes of a tensor in MiB, one for each step, and then for ever the last one.
SIZES = """
    import sys, torch

    sizes = [int(word) for word in sys.argv[1].split(",")]
    weight = torch.nn.Parameter(torch.zeros(1 << 18, device="cuda"))
    optimizer = torch.optim.SGD([weight])
    for step in range(1000):
        size = sizes[min(step, len(sizes) - 1)]
        torch.empty(size << 20, dtype=torch.uint8, device="cuda")
        weight.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.fixture
def cached(programs):
    """Programs with a cache of their own."""
    programs.environment["XDG_CACHE_HOME"] = str(programs.folder / "cache")
    return programs


def answer(done, command):
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    check_answer(command, found)
    return found


def test_a_recording_that_stopped_has_no_verdict(programs):
    programs.write(STOPPED, "stopped.py")
    done = programs.floodmark("estimate", "--json", "-o", "a.flood", "stopped.py")
    found = answer(done, "estimate")
    assert (found["fits"], found["unknown"]) == (None, "incomplete")
    assert done.returncode == 1
    assert any("recording stopped" in loss for loss in found["losses"])
    done = programs.floodmark("estimate", "-o", "b.flood", "stopped.py")
    first, second, *_ = done.stdout.splitlines()
    assert first.startswith("Unknown whether it fits: NVIDIA H200")
    assert second == "The recording is incomplete: what it misses may need more"


def test_what_has_no_verdict_is_neither_an_answer_of_fit_nor_kept(cached):
    cached.write(STOPPED, "stopped.py")
    words = ("fit", "--vary", "B=1..2", "--steps", "300", "stopped.py", "{B}")
    for _ in range(2):
        done = cached.floodmark(*words)
        assert (done.returncode, done.stdout) == (1, ""), done.stderr
        # The end of the trace is missing too where the file was full before it.
        reason = "(recording stopped|the recording is not finished)"
        assert re.search(f"it is unknown whether the program fits: {reason}", done.stderr)
        assert "an earlier run" not in done.stderr
    assert not list((cached.folder / "cache").rglob("*.json"))


FULL = "the temporary folder cannot be written: "
HINT = "hint: free space where temporary files go"


@needs_namespaces
@pytest.mark.parametrize("size", ["64k", "2m"])
def test_a_full_temporary_folder_is_one_error(cached, size):
    cached.write(SIZES, "p.py")
    full = cached.folder / "full"
    full.mkdir()
    mount = f"mount -t tmpfs -o size={size} tmpfs {full}"
    own = ["sh", sys.executable, "-m", "floodmark"]
    for words in (["fit", "--vary", "B=1..2", "p.py", "8", "{B}"], ["estimate", "p.py", "8"]):
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', *own, *words],
            cwd=cached.folder,
            env={**cached.environment, "TMPDIR": str(full)},
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stdout) == (1, ""), done.stderr
        assert "Traceback" not in done.stderr
        assert f"{FULL}No space left on device" in done.stderr
        assert HINT in done.stderr.splitlines()[-1]


def test_a_temporary_folder_for_small_files_only_is_one_error(cached):
    """A limit on the size of files needs no rights; a file in a folder of Python's is small."""
    cached.write(SIZES, "p.py")
    limit = "import os, resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20,) * 2)"
    start = f"{limit}; os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    words = ["-m", "floodmark", "fit", "--vary", "B=1..2", "p.py", "8", "{B}"]
    done = subprocess.run(
        [sys.executable, "-c", start, *words],
        cwd=cached.folder,
        env=cached.environment,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "Traceback" not in done.stderr
    first, *_, last = done.stderr.splitlines()
    assert f"{FULL}File too large" in first
    assert last.startswith(HINT)


def test_a_change_in_a_module_elsewhere_is_seen(cached):
    library = cached.folder / "elsewhere" / "mylib"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text("")
    (library / "model.py").write_text("MIB = 8\n")
    cached.write(
        """
        import sys, torch
        from mylib import model
        torch.empty(int(sys.argv[1]) * model.MIB << 20, dtype=torch.uint8, device="cuda")
        """,
        "project/p.py",
    )
    cached.environment["PYTHONPATH"] = str(library.parent)
    words = ("fit", "--gpu", "t4", "--memory", "1GiB", "--vary", "B=1..64", "--json")

    def fit():
        """The largest value, and whether the run that proves it is from an earlier run."""
        done = cached.floodmark(*words, "project/p.py", "{B}")
        found = answer(done, "fit")
        # Of two tries at a time, the one that is not needed may end before it has an answer.
        proof = [t for t in found["tries"] if t["values"] == [found["largest"]]]
        is_earlier = [tried["from_earlier_run"] is not None for tried in proof]
        return found["largest"], is_earlier, done

    assert fit()[:2] == (64, [False])
    largest, is_earlier, done = fit()
    assert (largest, is_earlier) == (64, [True])
    assert "from an earlier run, 20" in done.stderr
    (library / "model.py").write_text("MIB = 100\n")
    assert fit()[:2] == (8, [False])
    # A module that is new may hide another, or be one that was looked for in vain.
    (library / "extra.py").write_text("")
    assert fit()[:2] == (8, [False])
    text = cached.floodmark(*words[:-1], "project/p.py", "{B}").stdout
    assert "are from an earlier run, 20" in text


def test_a_file_that_an_argument_names_is_part_of_the_question(cached):
    cached.write(
        """
        import json, sys, torch
        size = json.loads(open(sys.argv[1].partition("=")[2]).read())["mib"]
        torch.empty(int(sys.argv[2]) * size << 20, dtype=torch.uint8, device="cuda")
        """,
        "p.py",
    )
    words = ("fit", "--gpu", "t4", "--memory", "1GiB", "--vary", "B=1..64", "--json")
    for size, largest in ((8, 64), (100, 8)):
        (cached.folder / "settings.json").write_text(json.dumps({"mib": size}))
        done = cached.floodmark(*words, "p.py", "--config=settings.json", "{B}")
        assert answer(done, "fit")["largest"] == largest


@pytest.mark.parametrize(
    ("sizes", "steps", "peaks", "warning"),
    [
        ("8,8", 2, "equal", ""),
        ("8,16,16", 3, "equal", ""),
        ("8,16,24,32,40,48,56,64,72,80", 8, "grow", "The peak still grew in the last of 8 steps"),
        ("8,16,8,16,8,16,8,16,8", 8, "differ", "The last of 8 steps had different peaks"),
    ],
)
def test_as_many_steps_are_made_as_peaks_need_to_repeat(cached, sizes, steps, peaks, warning):
    cached.write(SIZES, "p.py")
    words = ("--gpu", "t4", "--memory", "1GiB")
    fit = (*words, "--vary", "B=1..1", "p.py", sizes, "{B}")
    found = answer(cached.floodmark("fit", "--json", *fit), "fit")
    (tried,) = found["tries"]
    assert (tried["steps"], tried["step_peaks"], tried["ended"]) == (steps, peaks, "steps")
    said = cached.floodmark("fit", *fit).stdout
    first, *others = said.splitlines()
    assert first == f"B = 1 is the largest that fits on Tesla T4, in {steps} steps"
    assert [line.startswith(f"! {warning}") for line in others if line.startswith("!")] == (
        [True] if warning else []
    )
    done = cached.floodmark("plan", *words, "p.py", sizes)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Fits as it is: Tesla T4, {steps} steps, ")
    assert [
        line.startswith(f"! {warning}") for line in done.stdout.splitlines() if "!" in line
    ] == ([True] if warning else [])


def test_a_program_that_ends_by_itself_is_a_whole_run(cached):
    cached.write(SIZES.replace("range(1000)", "range(3)"), "p.py")
    words = ("fit", "--gpu", "t4", "--memory", "1GiB", "--vary", "B=1..1", "p.py", "8,16,24", "{B}")
    first, *_ = cached.floodmark(*words).stdout.splitlines()
    assert first == "B = 1 is the largest that fits on Tesla T4, in the whole run of 3 steps"


#: Needs 512 MiB more in the second step than in the first.
GROWS = """
    import torch

    weight = torch.nn.Parameter(torch.zeros(1 << 18, device="cuda"))
    optimizer = torch.optim.SGD([weight])
    kept = []
    print("the program runs")
    for step in range(4):
        if len(kept) < 2:
            kept.append(torch.empty(512 << 20, dtype=torch.uint8, device="cuda"))
        weight.sum().backward()
        optimizer.step()
"""


def test_after_an_out_of_memory_the_need_of_the_whole_run_is_printed(programs):
    programs.write(GROWS, "grows.py")
    words = ("estimate", "--gpu", "t4", "--memory", "1GiB", "-o", "a.flood", "--force")
    done = programs.floodmark(*words, "--json", "grows.py")
    found = answer(done, "estimate")
    assert found["fits"] is False
    assert done.returncode == 1
    whole = found["whole_run"]
    (device,) = found["devices"]
    assert whole["peak_allocated"] >= GIB > found["peak_allocated"]
    assert whole["needed"] == whole["peak_reserved"] + device["outside_torch"]
    assert (whole["steps"], whole["ended"], whole["step_peaks"]) == (3, "steps", "equal")
    # What the program prints is printed once, and one trace stays.
    assert done.stderr.count("the program runs") == 1
    assert [path.name for path in programs.folder.glob("*.flood*")] == ["a.flood"]
    text = programs.floodmark(*words, "grows.py").stdout
    (line,) = [line for line in text.splitlines() if line.startswith("With enough memory it needs")]
    assert line.endswith(": 3 steps")


def test_a_program_is_not_run_again_where_that_is_not_wanted(programs):
    programs.write(GROWS, "grows.py")
    words = ("estimate", "--gpu", "t4", "--memory", "1GiB", "-o", "a.flood", "--json")
    found = answer(programs.floodmark(*words, "--no-rerun", "grows.py"), "estimate")
    assert (found["fits"], found["whole_run"]) == (False, None)


def test_a_share_of_all_memory_is_no_need(programs):
    programs.write(
        """
        import torch
        free, total = torch.cuda.mem_get_info()
        kept = torch.empty(int(total * 0.9), dtype=torch.uint8, device="cuda")
        more = torch.empty(int(total * 0.2), dtype=torch.uint8, device="cuda")
        """,
        "share.py",
    )
    done = programs.floodmark("estimate", "--json", "--gpu", "t4", "-o", "a.flood", "share.py")
    found = answer(done, "estimate")
    assert (found["fits"], found["whole_run"]) == (False, None)


def test_a_launcher_on_this_machine_has_a_simulated_gpu_for_each_rank(programs):
    programs.write(
        """
        import os, torch
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        kept = torch.empty(1 << 20, device="cuda")
        """,
        "ranks.py",
    )
    launch = ("-m", "torch.distributed.run", "--nproc-per-node", "2")
    done = programs.python(*launch, "-m", "floodmark", "estimate", "-o", "out", "ranks.py")
    assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        (device,) = floodmark.Trace.open(programs.folder / f"out/rank-{rank:04}.flood").estimate()
        assert device["device"] == f"cuda:{rank}"


def test_a_launcher_behind_floodmark_and_a_size_without_a_unit_are_explained(programs):
    done = programs.floodmark("run", "torchrun", "--nproc-per-node", "2", "ddp.py")
    assert done.returncode == 1
    assert "`torchrun --nproc-per-node 2 -m floodmark run ddp.py`" in done.stderr
    done = programs.floodmark("estimate", "--memory", "24", "train.py")
    assert done.returncode == 1
    assert "that is 24 bytes: write a unit, such as `24GiB`" in done.stderr
