"""`floodmark estimate` and `floodmark fit`: programs on a simulated GPU."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import time
from pathlib import Path

import pytest
from support.answer_schema import check_answer
from support.phantoms import needs_cuda_build
from support.programs import PATIENCE

import floodmark

pytestmark = needs_cuda_build

MIB = 1 << 20

#: This many MiB of weights, states and activations; says what it does at every step and at its end.
TRAINING = """
    import argparse, atexit, os, sys
    import torch

    options = argparse.ArgumentParser()
    options.add_argument("--batch", type=int, default=1)
    options.add_argument("--steps", type=int, default=4)
    options = options.parse_args()
    atexit.register(print, "at exit")
    weight = torch.nn.Parameter(torch.empty(4 << 20, device="cuda"))
    optimizer = torch.optim.AdamW([weight])
    for step in range(options.steps):
        try:
            kept = torch.empty(options.batch * 100 << 20, dtype=torch.uint8, device="cuda")
            (weight * 2).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            del kept
        except Exception as error:
            print("caught", type(error).__name__)
            raise
        finally:
            print("step", step, "done")
    print("the end")
"""


@pytest.fixture
def training(programs):
    programs.write(TRAINING, "train.py")
    return programs


def estimate(programs, *words, **more):
    done = programs.floodmark("estimate", "--json", "-o", "a.flood", "--force", *words, **more)
    found = json.loads(done.stdout)
    check_answer("estimate", found)
    return done, found


def test_a_program_that_fits_says_what_it_needs(training):
    done = training.floodmark("estimate", "--gpu", "RTX 4090", "-o", "a.flood", "train.py")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == ("Fits: NVIDIA GeForce RTX 4090 (simulated), finished after 4 steps")
    # 16 MiB each of weights, gradients and two states, and 100 MiB that a step keeps.
    assert re.search(r"^peak allocated +\d+\.\d MiB$", done.stdout, re.M), done.stdout
    for word in ("parameter", "gradient", "optimizer state", "was not checked on hardware"):
        assert word in done.stdout
    # stdout has the estimate alone; what it is, is said once.
    assert "the end" not in done.stdout
    assert "the end" in done.stderr
    assert done.stderr.count("Simulating ") == 1
    found = floodmark.Trace.open(training.folder / "a.flood").estimate()
    assert found.fits is True
    row = found.rows[0]
    assert row["peak_allocated"] >= 164 * MIB
    assert row["needed"] == row["peak_reserved"] + row["outside_torch"]
    assert sum(owner["bytes"] for owner in row["owners"]) == row["outside_torch"]
    assert [owner["owner"] for owner in row["owners"]] == ["CUDA context", "kernels"]
    assert row["headroom"] == row["capacity"] - row["needed"]
    assert str(found) == done.stdout
    info = training.floodmark("info", "a.flood").stdout
    assert "rtx4090, a simulated GPU (engine `phantom`)" in info
    assert "RTX 4090 (simulated)" in info


@pytest.mark.parametrize("command", ["estimate", "fit"])
def test_on_a_terminal_nothing_is_wider_than_it(training, command):
    words = {
        "estimate": ("-o", "a.flood", "train.py"),
        "fit": ("--vary", "N=2,4", "train.py", "--batch", "{N}"),
    }[command]
    drawn = {"CLICOLOR_FORCE": "1", "COLUMNS": "60"}
    done = training.floodmark(command, "--gpu", "RTX 4090", *words, env=drawn)
    assert done.returncode == 0, done.stderr
    assert "\x1b[" in done.stdout
    lines = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).splitlines()
    assert [line for line in lines if len(line) > 60] == []
    assert any("█" in line for line in lines) == (command == "estimate")


@pytest.mark.parametrize("engine", ["phantom", "fake"])
def test_operator_calls_are_printed_with_their_growth(training, engine):
    words = ("--ops", "--engine", engine, "--steps", "2", "-o", "a.flood", "train.py")
    done = training.floodmark("estimate", *words)
    assert done.returncode == 0, done.stderr
    head = done.stdout.splitlines().index(
        next(line for line in done.stdout.splitlines() if line.split()[:1] == ["Growth"])
    )
    first = done.stdout.splitlines()[head + 1]
    assert re.match(r"\+100\.0 MiB  116\.0 MiB  116\.0 MiB +\S+ MiB +1  aten::empty", first), first
    assert "train.py:14" in first
    calls = floodmark.Trace.open(training.folder / "a.flood").op_calls("cuda:0")
    growths = [call["growth"] // MIB for call in calls if "train.py:14" in call["location"]]
    # What the iteration before still had is freed before the next call.
    assert growths == [100, 100]
    # JSON has the calls that the text lists.
    _, found = estimate(training, *words[:-3], "train.py")
    assert (found["op_calls"]["by"], found["op_calls"]["device"]) == ("op-call", "cuda:0")
    listed = list(itertools.takewhile(bool, done.stdout.splitlines()[head + 1 :]))
    rows = found["op_calls"]["rows"]
    assert len(listed) == len(rows) > 1
    assert all(row["op"] in line for row, line in zip(rows, listed, strict=True))
    _, found = estimate(training, "--engine", engine, "--steps", "1", "train.py")
    assert found["op_calls"] is None


def test_a_program_that_does_not_fit_fails_as_it_would(training):
    done, found = estimate(training, "--gpu", "t4", "--memory", "1GiB", "train.py", "--batch", "9")
    assert done.returncode == 1
    assert "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 900.00 MiB" in done.stderr
    assert "caught OutOfMemoryError" in done.stderr
    assert (found["fits"], found["ended"]) == (False, "out_of_memory")
    device = found["devices"][0]
    assert device["failed"]["request"]["bytes"] == 900 * MIB
    assert device["needed"] > device["capacity"] == 1 << 30
    options = ("--gpu", "t4", "--memory", "1GiB", "-o", "b.flood", "train.py", "--batch", "9")
    shown = training.floodmark("estimate", *options)
    text = shown.stdout
    assert text.startswith("Does not fit: Tesla T4 (simulated), out of memory after 0 steps\n")
    assert "900.0 MiB requested at train.py:" in text
    # torch's own message is the program's; it is not repeated.
    assert "Tried to allocate" not in text
    assert "see why memory ran out with `floodmark oom b.flood`" in shown.stderr
    explained = training.floodmark("oom", "b.flood")
    assert "`floodmark plan --gpu t4 --memory 1GiB train.py --batch 9`" in explained.stderr


@pytest.mark.parametrize("asked", [900, 2000])
def test_a_segment_that_could_not_grow_is_no_memory_of_libraries(programs, asked):
    """torch creates an expandable segment in small handles, and releases them when one fails."""
    programs.write(
        f"""
        import torch
        kept = [torch.empty(200 << 20, dtype=torch.uint8, device="cuda") for _ in range(8)]
        del kept[::2]
        try:
            large = torch.empty({asked} << 20, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            pass
        """,
        "grows.py",
    )
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    options = ("--gpu", "rtx4090", "--memory", "2560MiB", "grows.py")
    _, found = estimate(programs, *options, env=settings)
    [device] = found["devices"]
    assert "other allocations" not in [owner["owner"] for owner in device["owners"]]
    _, found = estimate(programs, *options)
    [default] = found["devices"]
    assert (default["owners"], default["needed"]) == (device["owners"], device["needed"])


def test_a_program_that_dies_of_something_else_leaves_the_question_open(programs):
    programs.write("import torch\nx = torch.ones(3, device='cuda')\nraise KeyError('x')", "bad.py")
    done, found = estimate(programs, "bad.py")
    assert done.returncode == 1
    assert (found["fits"], found["ended"], found["error"]) == (None, "failed", "KeyError: 'x'")
    programs.write("import sys, torch\nsys.exit(3)", "exits.py")
    done, found = estimate(programs, "exits.py")
    assert done.returncode == 3
    assert found["error"] == "exit status 3"


def test_unknown_values_are_listed_and_can_be_given(programs):
    programs.write(
        """
        import torch
        known = torch.arange(5, device="cuda")
        assert known.sum().item() == 10
        unknown = torch.randn(8, device="cuda").matmul(torch.randn(8, 8, device="cuda"))
        for _ in range(3):
            large = unknown.mean().item() > 0.5
        kept = torch.empty((64 if large else 1) << 20, device="cuda")
        """,
        "branch.py",
    )
    _, found = estimate(programs, "branch.py")
    [read] = found["reads"]
    assert (read["line"], read["count"], read["function"]) == (7, 3, "<module>")
    assert found["peak_allocated"] < 64 * MIB
    _, found = estimate(programs, "--answer", "branch.py:7=0.75", "branch.py")
    assert "0.75" in found["reads"][0]["assumed"]
    assert found["peak_allocated"] > 256 * MIB
    text = programs.floodmark("estimate", "branch.py").stdout
    assert "branch.py:7 (<module>)" in text
    assert "--answer FILE:LINE=VALUE" in text


def test_steps_end_the_program_as_an_exit_would(training):
    done, found = estimate(training, "--steps", "2", "train.py", "--steps", "100")
    assert done.returncode == 0, done.stderr
    assert (found["steps"], found["ended"], found["fits"]) == (2, "steps", True)
    assert "step 1 done" in done.stderr
    assert "step 2 done" not in done.stderr
    assert "the end" not in done.stderr
    assert "caught" not in done.stderr
    assert "at exit" in done.stderr
    assert "Traceback" not in done.stderr


def test_steps_of_a_program_without_an_optimizer_are_backward_passes(programs):
    programs.write(
        """
        import torch

        model = torch.nn.Linear(1024, 1024, bias=False, device="cuda")
        loose = torch.nn.Parameter(torch.empty(2 << 20, device="cuda"))
        parameters = [*model.parameters(), loose]
        for step in range(100):
            x = torch.empty(8, 1024, device="cuda")
            (model(x).sum() + loose.sum()).backward()
            kept = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")
            with torch.no_grad():
                for parameter in parameters:
                    parameter -= 0.1 * parameter.grad
                    parameter.grad = None
            del kept
            print("updated in step", step)
        """,
        "by_hand.py",
    )
    done, found = estimate(programs, "--steps", "3", "by_hand.py")
    assert done.returncode == 0, done.stderr
    assert (found["steps"], found["ended"], found["fits"]) == (3, "steps", True)
    assert done.stderr.count("the program has no optimizer: `--steps` counts calls of") == 1
    # The update of the last step is part of it.
    assert "updated in step 2" in done.stderr
    assert "updated in step 3" not in done.stderr
    at_peak = {row["category"]: row["bytes"] for row in found["devices"][0]["categories"]}
    assert at_peak["gradient"] == at_peak["parameter"] == 12 * MIB, at_peak


def test_steps_end_a_program_that_catches_everything_and_has_workers(programs):
    programs.write(
        """
        import torch
        from torch.utils.data import DataLoader

        if __name__ == "__main__":
            weight = torch.nn.Parameter(torch.ones(8, device="cuda"))
            optimizer = torch.optim.SGD([weight], lr=0.1)
            loader = DataLoader(range(10_000), num_workers=2)
            for number in loader:
                try:
                    (weight * number.cuda()).sum().backward()
                    optimizer.step()
                except:
                    print("swallowed")
        """,
        "stubborn.py",
    )
    done, found = estimate(programs, "--steps", "1", "stubborn.py")
    assert done.returncode == 0, done.stderr
    assert (found["ended"], found["fits"]) == ("steps", True)
    assert done.stderr.count("swallowed") == 3
    # Workers look every few seconds whether their parent is there.
    # The limit only ends a test that hangs.
    end = time.monotonic() + PATIENCE
    while _processes_in(programs.folder):
        assert time.monotonic() < end, _processes_in(programs.folder)
        time.sleep(0.1)


def _processes_in(folder):
    """Processes that were started in a folder and still run."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").resolve() == folder.resolve() and int(process.name) != os.getpid():
                found.append(process.name)
    return found


def test_a_rank_sees_the_environment_of_its_launcher(programs):
    programs.write(
        """
        import os, torch
        names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR"]
        print("ranks", *[os.environ[name] for name in names])
        print("port", int(os.environ["MASTER_PORT"]) > 0)
        print("GPUs", torch.cuda.device_count())
        x = torch.ones(1 << 20, device=f"cuda:{os.environ['LOCAL_RANK']}")
        """,
        "rank.py",
    )
    done = programs.floodmark("estimate", "--json", "--world", "16", "--rank", "11", "rank.py")
    assert "ranks 11 16 3 8 127.0.0.1" in done.stderr
    assert "port True" in done.stderr
    assert "GPUs 8" in done.stderr
    found = json.loads(done.stdout)
    assert (found["rank"], found["world_size"]) == (11, 16)
    assert [row["device"] for row in found["devices"]] == ["cuda:3"]
    assert (programs.folder / "floodmark-rank" / "rank-0011.flood").exists()


def test_the_block_in_python_and_what_cannot_be(programs):
    programs.run(
        """
        import floodmark

        with floodmark.phantom("h100", memory="24GiB", gpus=2) as gpu:
            import torch
            assert torch.cuda.get_device_name(1) == "NVIDIA H100 80GB HBM3 (simulated)"
            assert torch.cuda.device_count() == 2
            assert gpu.memory == torch.cuda.get_device_properties(0).total_memory == 24 << 30
            with floodmark.trace("b.flood") as trace:
                kept = torch.empty(1 << 20, device="cuda")
            found = trace.trace.estimate()
            assert found.fits and found.peak_allocated == 4 << 20
        with floodmark.phantom("h100", memory=24 << 30, gpus=2):
            pass
        try:
            floodmark.phantom("t4").__enter__()
        except floodmark.PhantomError as error:
            assert "hint" in str(error)
        else:
            raise AssertionError
        """
    )
    programs.run(
        """
        import floodmark, torch
        for words in (["h300"], ["h100", 1000]):
            try:
                with floodmark.phantom(words[0], memory=words[1] if words[1:] else None):
                    raise AssertionError
            except floodmark.PhantomError as error:
                print(error)
        """
    )


@pytest.mark.slow
def test_fit_finds_what_a_linear_search_finds(training):
    gpu = ["--gpu", "t4", "--memory", "900MiB"]
    program = ["train.py", "--batch", "{BATCH}"]
    words = ("fit", "--json", "--no-cache", *gpu, "--vary", "BATCH=1..8", *program)
    done = training.floodmark(*words, timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    check_answer("fit", found)
    fits = [
        batch
        for batch in range(1, 9)
        if estimate(training, *gpu, "--steps", "2", "train.py", "--batch", str(batch))[1]["fits"]
    ]
    assert found["largest"] == max(fits)
    assert fits == list(range(1, len(fits) + 1))
    assert 1 < len(fits) < 8
    assert found["not_monotone"] == []
    values = [tried["value"] for tried in found["tries"]]
    assert values == sorted(values)
    assert not list(training.folder.glob("try*"))


def test_fit_takes_the_environment_and_tells_of_failures(programs):
    programs.write(
        """
        import os, torch
        batch = int(os.environ["BATCH"])
        if batch == 3:
            raise ValueError("three is wrong")
        kept = torch.empty(batch << 30, dtype=torch.uint8, device="cuda")
        """,
        "by_env.py",
    )
    words = ["fit", "--no-cache", "--gpu", "t4", "--env", "BATCH={BATCH}", "--vary"]
    good = programs.floodmark(*words, "BATCH=8,14,20", "by_env.py", timeout=600)
    assert good.returncode == 0, good.stderr
    first, *_ = good.stdout.splitlines()
    assert first == "BATCH = 14 is the largest that fits on Tesla T4, in the whole run"
    bad = programs.floodmark(*words, "BATCH=3", "by_env.py")
    assert bad.returncode == 1
    assert "ValueError: three is wrong" in bad.stderr
    nothing = programs.floodmark("fit", "--json", *words[1:], "BATCH=20..21", "by_env.py")
    assert nothing.returncode == 1
    found = json.loads(nothing.stdout)
    check_answer("fit", found)
    assert found["largest"] is None
    assert "nothing fits: BATCH = 20 is the smallest" in nothing.stderr
