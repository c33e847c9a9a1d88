"""`--with` and `floodmark plan`: changed programs on a simulated GPU."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from support.answer_schema import check_answer
from support.phantoms import needs_cuda_build
from support.viewing import answer, viewing

import floodmark

pytestmark = needs_cuda_build

MIB = 1 << 20

#: Six blocks that save about 100 MiB each, and an optimizer.
TRAINING = """
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(512, 2048)
            self.second = nn.Linear(2048, 512)

        def forward(self, x):
            return x + self.second(torch.tanh(self.first(x)))

    model = nn.Sequential(*(Block() for _ in range(6))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        model(torch.randn(4096, 512, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.fixture
def training(programs):
    programs.write(TRAINING, "train.py")
    programs.environment["XDG_CACHE_HOME"] = str(programs.folder / "cache")
    return programs


def estimate(programs, *words):
    words = ("estimate", "--json", "-q", "-o", "a.flood", "--force", *words)
    done = programs.floodmark(*words)
    found = json.loads(done.stdout)
    check_answer("estimate", found)
    return found


def plan(programs, *words):
    done = programs.floodmark("plan", "--json", *words)
    found = json.loads(done.stdout) if done.stdout else None
    if found is not None:
        check_answer("plan", found)
    return done, found


def test_an_estimate_with_a_change_says_what_it_was_applied_to(training):
    unchanged = estimate(training, "train.py")["peak_allocated"]
    found = estimate(training, "--with", "checkpoint=4", "train.py")
    (change,) = found["changes"]
    assert change["target"] == "4 of 6 × Block"
    assert found["peak_allocated"] < unchanged - 100 * MIB
    text = str(floodmark.Trace.open(training.folder / "a.flood").estimate())
    assert "With `checkpoint=4`: 4 of 6 × Block" in text


def test_a_measured_step_says_what_it_costs_and_changes_no_peak(training):
    training.write(TRAINING.replace("range(3)", "range(30)"), "long.py")
    words = ("--steps", "2", "long.py")
    recorded, measured = estimate(training, *words), estimate(training, "--measure-step", *words)
    assert recorded["cost"] is None
    assert measured["steps"] == recorded["steps"] == 2
    for key in ("peak_allocated", "peak_reserved"):
        assert measured[key] == recorded[key]
    assert measured["devices"][0]["needed"] == recorded["devices"][0]["needed"]
    # A plan tries the settings that a simulation of the allocator found best.
    assert recorded["devices"][0]["best_settings"] is None
    assert measured["devices"][0]["best_settings"] == "expandable_segments:True"
    cost = measured["cost"]
    # Twelve products forward, and two for each in the backward pass but for the first input.
    products = [one for one in cost["operators"] if one["kind"] == "matmul"]
    assert sum(one["count"] for one in products) == 12 + 23
    assert cost["backward_passes"] == 1
    assert 0 < cost["host_nanos"] < 5_000_000_000


def test_a_program_that_ends_at_once_has_no_measured_time(training):
    training.write(TRAINING.replace("range(3)", "range(2)"), "short.py")
    assert estimate(training, "--measure-step", "--steps", "2", "short.py")["cost"] is None


def test_a_change_that_finds_nothing_says_so(training):
    found = estimate(training, "--with", "chunked-loss=4", "train.py")
    assert found["changes"][0]["reason"].startswith("no `cross_entropy`")


@pytest.fixture
def training_on_cpu(programs):
    programs.write(TRAINING.replace(".cuda()", "").replace(', device="cuda"', ""), "train.py")
    return programs


def run_with(programs, *words):
    done = programs.floodmark("run", "-o", "a.flood", "--force", *words, "train.py")
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


def test_a_recorded_program_is_changed_too(training_on_cpu):
    words = ("--with", "checkpoint=2", "--with", "foreach=off")
    *_, of_optimizer, of_blocks, _ = run_with(training_on_cpu, *words)
    assert of_optimizer == "floodmark: With `foreach=off`: `AdamW`"
    assert of_blocks == "floodmark: With `checkpoint=2`: 2 of 6 × Block"
    changes = floodmark.Trace.open(training_on_cpu.folder / "a.flood").header["changes"]
    assert [change["target"] for change in changes] == ["`AdamW`", "2 of 6 × Block"]
    assert run_with(training_on_cpu, "-q", *words) == []


def test_a_recorded_program_says_which_change_was_left_out(training_on_cpu):
    *_, of_loss, _ = run_with(training_on_cpu, "--with", "chunked-loss=4")
    assert of_loss.startswith("floodmark: Without `chunked-loss=4`: no `cross_entropy`")


def test_a_change_that_does_not_exist_is_an_error_of_the_user(training):
    done = training.floodmark("run", "--with", "chekpoint=4", "train.py")
    assert done.returncode == 1
    assert "there is no change `chekpoint`" in done.stderr


def pasted(patch):
    """The program with each part of a patch where it says that it goes."""
    top, before, after = [], [], []
    for part in re.split(r"\n(?=# [a-z0-9-]+(?:=\S+)?: )", patch):
        place = part.splitlines()[1]
        if place.startswith("# at the top of the program"):
            top.append(part)
        else:
            (after if place == "# after the optimizer is made" else before).append(part)
    source = textwrap.dedent(TRAINING)
    optimizer = "optimizer = torch.optim.AdamW(model.parameters())\n"
    source = source.replace(optimizer, "".join(before) + optimizer + "".join(after))
    return "".join(top) + source


@pytest.mark.slow
def test_a_plan_fits_and_its_patch_does_the_same(training):
    needed = estimate(training, "train.py")["devices"][0]["needed"]
    memory = needed - 150 * MIB
    done, found = plan(training, "--memory", str(memory), "train.py")
    assert done.returncode == 0, done.stderr
    assert found["is_proven"]
    # Where more was reserved with plenty of memory, torch frees cached blocks on the GPU itself.
    assert found["plan"]["fits"]
    assert found["plan"]["peak_allocated"] < memory < found["unchanged"]["needed"]
    assert found["plan"]["slow_down"] < 4
    assert found["command"].startswith("floodmark run --with ")
    # What was tried is not tried again.
    again = training.floodmark("plan", "--memory", str(memory), "--budget", "0s", "train.py")
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("Fits with ")
    assert "activations of 6 blocks" in again.stdout
    training.write(pasted(found["patch"]), "patched.py")
    by_hand = estimate(training, "patched.py")
    assert by_hand["peak_allocated"] == pytest.approx(found["plan"]["peak_allocated"], rel=0.02)


def test_a_plan_is_run_when_that_is_asked_for(programs):
    programs.environment["XDG_CACHE_HOME"] = str(programs.folder / "cache")
    programs.write(
        """
        import torch
        device = "cuda" if torch.cuda.is_available() else "cpu"
        weight = torch.nn.Parameter(torch.ones(1 << 20, device=device))
        (weight * 2).sum().backward()
        print("ran on", device)
        """,
        "train.py",
    )
    done = programs.floodmark("plan", "--run", "train.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Fits as it is")
    # The tries print to stderr: this is the program itself.
    assert done.stdout.count("ran on") == 1
    assert (programs.folder / "floodmark-train.flood").exists()


def test_a_program_that_fits_needs_no_plan(training):
    done = training.floodmark("plan", "train.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Fits as it is: NVIDIA H200")


@pytest.mark.slow
def test_if_nothing_fits_the_floor_is_printed(training):
    done, found = plan(training, "--memory", "800MiB", "train.py")
    assert done.returncode == 1
    assert found["plan"] is None
    assert found["floor"] > 800 * MIB
    assert found["floor_try"]["needed"] == found["floor"]
    assert len(found["floor_try"]["changes"]) > 1
    assert found["floor_causes"]
    assert "no plan fits: every try needs" in done.stderr
    # What fits was run: another GPU.
    step = found["next_steps"][0]
    assert (step["gpus"], step["changes"]) == (1, found["floor_try"]["changes"])
    assert step["needed"] <= step["capacity"]
    assert any(run["asked"] == "verdict" for run in found["runs"])
    assert "hint: make the batch smaller" in done.stderr


def test_ctrl_c_leaves_nothing_behind_but_what_was_tried(training):
    folder = training.folder / "temporary"
    folder.mkdir()
    environment = {**os.environ, **training.environment, "TMPDIR": str(folder)}
    command = [sys.executable, "-m", "floodmark", "plan", "--memory", "800MiB", "train.py"]
    process = subprocess.Popen(
        command, cwd=training.folder, env=environment, stderr=subprocess.PIPE, text=True
    )
    kept = training.folder / "cache" / "floodmark" / "tries"
    until = time.monotonic() + 300
    while not (kept.is_dir() and any(kept.glob("*.json"))) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert "Interrupted; what was tried is kept" in said
    assert "Traceback" not in said
    assert any(kept.glob("*.json"))
    until = time.monotonic() + 30
    while list(folder.glob("floodmark-??????")) and time.monotonic() < until:
        time.sleep(0.05)
    assert not list(folder.glob("floodmark-??????"))


def test_without_time_it_says_what_was_not_tried(training):
    done, found = plan(training, "--memory", "800MiB", "--budget", "0s", "--no-cache", "train.py")
    assert done.returncode == 1
    assert found["not_tried"] == ["the program as it is"]
    assert "found no plan within the time limit" in done.stderr


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import torch\nraise KeyError('x')", "the program fails without changes: KeyError: 'x'"),
        ("import torch\ntorch.ones(3)", "the program allocated nothing on the GPU"),
    ],
)
def test_a_program_that_cannot_be_planned_for_is_answered_clearly(programs, source, said):
    programs.write(source, "odd.py")
    done = programs.floodmark("plan", "--memory", "1GiB", "--no-cache", "odd.py")
    assert done.returncode == 1
    assert said in done.stderr
    assert "hint: " in done.stderr
    assert done.stdout == ""


def test_a_program_that_trains_nothing_gets_changes_of_inference_alone(training):
    inference = TRAINING.split("optimizer =")[0] + (
        "model.eval()\n"
        "    for _ in range(3):\n"
        '        print(model(torch.ones(4096, 512, device="cuda")).shape)\n'
    )
    training.write(inference, "score.py")
    done, found = plan(training, "--memory", "1000MiB", "--no-cache", "score.py")
    assert done.returncode == 0, done.stderr
    assert "no-grad" in found["plan"]["changes"]
    assert found["plan"]["numerics"] == "same"
    tried = {change for one in found["tries"] for change in one["changes"]}
    assert tried <= {"no-grad", "bf16-parameters", "allocator=expandable_segments:True"}
    assert found["left_out"] == []


@pytest.mark.slow
def test_a_program_without_a_module_is_planned_for_as_far_as_it_goes(programs):
    programs.write(
        """
        import torch
        weight = torch.nn.Parameter(torch.ones(64 << 20, device="cuda"))
        optimizer = torch.optim.AdamW([weight])
        for _ in range(2):
            (weight * 2).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        """,
        "bare.py",
    )
    done, found = plan(programs, "--memory", "1800MiB", "--no-cache", "bare.py")
    reasons = {one["changes"]: one["reason"] for one in found["left_out"]}
    assert "no module was called" in reasons["checkpoint=all"]
    # Nothing says what its temporaries are for, so it is found by a try of all.
    assert "fused" in found["plan"]["changes"], done.stderr
    assert found["is_proven"]


@pytest.mark.slow
def test_more_gpus_are_planned_for_where_that_is_allowed(training):
    needed = estimate(training, "train.py")["devices"][0]["needed"]
    words = ("--shard-over", "4", "--memory", str(needed - 150 * MIB), "train.py")
    done, found = plan(training, *words)
    assert done.returncode == 0, done.stderr
    # What costs only time comes first.
    assert found["plan"]["gpus"] == 1
    assert not any("compile" in one["changes"] for one in found["left_out"])
    # Each run of this command is listed, the proof last.
    assert [run["asked"] for run in found["runs"]][-1] == "verdict"
    assert all(run["seconds"] > 0 for run in found["runs"])
    # The program ends with its recorded steps, so what a step costs takes further runs.
    assert len([run for run in found["runs"] if run["asked"] == "need"]) <= 8


def test_a_plan_may_choose_an_argument_of_the_program(training):
    source = TRAINING.replace("import torch\n", "import sys\n    import torch\n", 1)
    source = source.replace("4096, 512, device", "4096 // parts, 512, device")
    source = source.replace(
        "    for _ in range(3):", "    parts = int(sys.argv[1])\n    for _ in range(3):"
    )
    source = source.replace("        model(", "        for _ in range(parts): model(")
    training.write(source, "parts.py")
    words = ("--vary", "PARTS=1,2,4", "parts.py", "{PARTS}")
    unchanged = estimate(training, "parts.py", "1")
    limit = unchanged["devices"][0]["needed"] - 220 * MIB
    done, found = plan(training, "--memory", str(limit), *words)
    assert done.returncode == 0, done.stderr
    assert found["unchanged"]["peak_allocated"] == unchanged["peak_allocated"]
    with_parts = [one for one in found["tries"] if "PARTS=" in str(one["changes"])]
    assert all(one["needed"] < found["unchanged"]["needed"] for one in with_parts)
    assert all(one["numerics"] != "same" for one in with_parts)
    # Which change is the fastest depends on the machine.
    values = [one for one in found["plan"]["changes"] if one.startswith("PARTS=")]
    parts = values[0].removeprefix("PARTS=") if values else "1"
    assert found["command"].endswith(f" parts.py {parts}")
    assert (f"# PARTS={parts}: an argument of the program" in found["patch"]) == bool(values)
    wrong = training.floodmark("plan", "--vary", "OTHER=1,2", "parts.py", "1")
    assert wrong.returncode == 1
    assert "{OTHER}" in wrong.stderr


def test_a_plan_is_kept_with_the_recording_of_the_unchanged_program(training):
    done, found = plan(training, "-o", "plan.flood", "train.py")
    assert done.returncode == 0, done.stderr
    assert "wrote the plan to `plan.flood`" in done.stderr
    path = training.folder / "plan.flood"
    trace = floodmark.Trace.open(path)
    # The page shows the answer as it was printed.
    with viewing(path) as (_, address):
        assert answer(address, "plan?trace=0") == found
        (card,) = answer(address, "traces")["traces"]
    assert card["has_plan"]
    assert card["summary"]["losses"] == []
    peaks = {one["device"]: one["peak"] for one in card["summary"]["devices"]}
    assert peaks["cuda:0"] == found["unchanged"]["peak_allocated"]
    # It ran with more memory than any GPU has: the memory is that of the GPU which was planned for.
    memory = {one["device"]: one["total"] for one in card["summary"]["devices"]}
    assert memory["cuda:0"] == found["capacity"]
    assert not trace.header.get("changes")
    # An existing file is an error before anything is tried.
    refused = training.floodmark("plan", "-o", "plan.flood", "train.py")
    assert refused.returncode == 1
    assert "the file exists" in refused.stderr
    # The cache has answers and no recordings: the unchanged program is run again.
    again, same = plan(training, "-o", "plan.flood", "--force", "--budget", "0s", "train.py")
    assert again.returncode == 0, again.stderr
    assert same["plan"] == found["plan"]
    for words in (("-o", "missing/plan.flood"), ("-o", ".")):
        wrong = training.floodmark("plan", *words, "train.py")
        assert wrong.returncode == 1
        assert "hint: " in wrong.stderr


@pytest.mark.slow
def test_a_gpu_without_bf16_gets_no_plan_with_it(training):
    # What nothing is enough for: every change is tried.
    done, found = plan(training, "--gpu", "t4", "--memory", "400MiB", "train.py")
    assert done.returncode == 1
    left_out = {one["changes"]: one["reason"] for one in found["left_out"]}
    reason = "Tesla T4 (compute capability 7.5) has no bf16"
    assert left_out["autocast=bf16"] == left_out["bf16-parameters"] == reason
    assert not any("bf16" in change for one in found["tries"] for change in one["changes"])
    # A try that fits needs no more than the GPU has, to the byte.
    assert all(one["needed"] <= found["capacity"] for one in found["tries"] if one["fits"])
