"""How `floodmark estimate` answers after a program that ended in any way."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.phantoms import needs_cuda_build

import floodmark

pytestmark = needs_cuda_build

MIB = 1 << 20


def estimate(programs, *words, **more):
    done = programs.floodmark("estimate", "--json", "-o", "a.flood", "--force", *words, **more)
    return done, json.loads(done.stdout)


def test_nothing_on_the_gpu_is_unknown_and_no_success(programs):
    programs.write("import torch\nx = torch.ones(1 << 20)\nprint('the end')", "host.py")
    done = programs.floodmark("estimate", "-o", "a.flood", "host.py")
    assert "the end" in done.stderr
    assert done.returncode == 1
    first, second = done.stdout.splitlines()[:2]
    assert first == "Unknown whether it fits: h200, finished"
    assert "Nothing was allocated on the GPU: the program used the CPU alone" in second
    assert "processes without the simulated GPU" in second
    info = programs.floodmark("info", "a.flood")
    assert info.returncode == 0


#: Ends after two steps of four, in a way that the words choose, and has 64 MiB live until then.
ENDS = """
    import os, signal, sys, torch

    weight = torch.nn.Parameter(torch.empty(16 << 20, device="cuda"))
    optimizer = torch.optim.SGD([weight])
    for step in range(4):
        (weight * 2).sum().backward()
        optimizer.step()
        if step == 1:
            how = sys.argv[1]
            if how.startswith("SIG"):
                os.kill(os.getpid(), getattr(signal, how))
            elif how == "raise":
                raise KeyError("x")
            elif how == "exit":
                sys.exit(3)
            os._exit(int(how))
"""


@pytest.mark.parametrize(
    ("how", "status", "fits", "error"),
    [
        ("SIGKILL", -signal.SIGKILL, None, "killed by SIGKILL"),
        ("SIGSEGV", -signal.SIGSEGV, None, "killed by SIGSEGV"),
        ("raise", 1, None, "KeyError: 'x'"),
        ("exit", 3, None, "exit status 3"),
        ("7", 7, None, "exit status 7"),
        ("0", 0, True, ""),
    ],
)
def test_what_was_recorded_is_reported_after_any_end(programs, how, status, fits, error):
    programs.write(ENDS, "ends.py")
    done, found = estimate(programs, "ends.py", how)
    assert done.returncode == status, done.stderr
    assert (found["fits"], found["error"]) == (fits, error)
    assert found["ended"] == ("done" if fits else "failed")
    assert found["steps"] == 2
    assert found["peak_allocated"] >= 128 * MIB
    assert ("KeyError: 'x'" in done.stderr) == (how == "raise")


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (r"\n\x1b[91merror:\x1b[0m no kernel\n- GPU: 80 GB\n", "error: no kernel"),
        (r"\n\n-- 0:\nTraceback (most recent call last):\n  f()\nKeyError: 1", "KeyError: 1"),
        (r"cannot load\nhint: a path", "cannot load"),
        (r"\n \n", ""),
    ],
)
def test_the_line_that_says_what_failed_is_reported(programs, message, error):
    code = f"""
        import torch
        torch.ones(1, device="cuda")
        raise OSError("{message}")
    """
    programs.write(code, "a.py")
    _, found = estimate(programs, "a.py")
    assert found["error"] == f"OSError: {error}".removesuffix(": ")


def test_signals_reach_the_program_and_the_answer_comes_after_it(programs):
    programs.write(
        """
        import signal, sys, time, torch

        def leave(*_):
            print("asked to leave", file=sys.stderr)
            sys.exit(0)

        signal.signal(signal.SIGTERM, leave)
        kept = torch.empty(16 << 20, device="cuda")
        print("ready", file=sys.stderr, flush=True)
        while True:
            # `signal.pause` would miss a signal that comes just before it.
            time.sleep(0.01)
        """,
        "waits.py",
    )
    words = [sys.executable, "-m", "floodmark", "estimate", "--json", "waits.py"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(
        words, cwd=programs.folder, env=programs.environment, **streams
    ) as waiting:
        while "ready" not in waiting.stderr.readline():
            assert waiting.poll() is None
        waiting.terminate()
        answer, said = waiting.communicate()
    assert "asked to leave" in said
    assert waiting.returncode == 0
    assert json.loads(answer)["peak_allocated"] == 64 * MIB


def test_a_program_does_not_outlive_the_process_that_waits_for_it(programs):
    programs.write(
        """
        import os, signal, sys, torch
        print("pid", os.getpid(), file=sys.stderr, flush=True)
        signal.pause()
        """,
        "waits.py",
    )
    words = [sys.executable, "-m", "floodmark", "estimate", "waits.py"]
    with subprocess.Popen(
        words, cwd=programs.folder, env=programs.environment, stderr=subprocess.PIPE, text=True
    ) as waiting:
        line = ""
        while not line.startswith("pid"):
            line = waiting.stderr.readline()
        waiting.kill()
        # The program has the other end of the pipe: it is closed when the program has ended.
        waiting.stderr.read()
    assert waiting.returncode == -signal.SIGKILL


def test_a_try_does_not_outlive_the_search_that_started_it(programs):
    # A write end of the pipe is open as long as the program runs: `fit` has none of its own.
    programs.write(
        """
        import os, sys, threading
        ready = os.open("ready", os.O_WRONLY)
        os.write(ready, sys.argv[1].encode())
        threading.Event().wait()
        """,
        "waits.py",
    )
    os.mkfifo(programs.folder / "ready")
    words = [sys.executable, "-m", "floodmark", "fit", "--vary", "N=1..4", "waits.py", "{N}"]
    with (
        subprocess.Popen(words, cwd=programs.folder, env=programs.environment) as fit,
        (programs.folder / "ready").open("rb", buffering=0) as ready,
    ):
        assert ready.read(1)
        fit.kill()
        assert ready.read(1) == b"", "the program has ended"
    assert fit.returncode == -signal.SIGKILL


#: Catches everything, as trainers do that clean up at any cost; resets torch's counters.
SWALLOWS = """
    import sys, torch

    weight = torch.nn.Parameter(torch.empty(1 << 20, device="cuda"))
    optimizer = torch.optim.SGD([weight])
    try:
        for step in range(9):
            (weight * 2).sum().backward()
            large = torch.empty(512 << 20, dtype=torch.uint8, device="cuda")
            del large
            torch.cuda.reset_peak_memory_stats()
            optimizer.step()
    except BaseException as error:
        print("swallowed", type(error).__name__)
    if sys.argv[1:] == ["fail"]:
        raise RuntimeError("it did not train")
    if sys.argv[1:] == ["exit"]:
        sys.exit(5)
    print("the end")
"""


@pytest.mark.parametrize("how", ["", "fail", "exit"])
def test_an_end_by_steps_is_no_end_of_the_program(programs, how):
    programs.write(SWALLOWS, "swallows.py")
    done = programs.floodmark("estimate", "--steps", "4", "swallows.py", *filter(None, [how]))
    assert done.stdout.startswith("Fits: NVIDIA H200 (simulated), stopped after 4 steps\n"), (
        done.stdout + done.stderr
    )
    assert done.returncode == 0
    assert "swallowed EnoughSteps" in done.stderr
    # 516 MiB and more: what torch's own counter has forgotten.
    assert re.search(r"floodmark: step 4, peak 5\d\d\.\d MiB", done.stderr), done.stderr


def test_fake_tensors_are_not_called_a_phantom(programs):
    programs.write("import torch\nx = torch.ones(1 << 20, device='cuda')", "one.py")
    done = programs.floodmark("estimate", "--engine", "fake", "-o", "a.flood", "one.py")
    assert done.stdout.startswith("Fits: NVIDIA H200 (fake tensors), finished"), done.stdout
    for text in (done.stdout, done.stderr, programs.floodmark("info", "a.flood").stdout):
        assert "phantom" not in text


def test_missing_torch_is_one_line_and_a_hint(programs):
    programs.write("import torch", "train.py")
    programs.write(
        """
        import sys
        # An environment without torch.
        sys.path[:] = [entry for entry in sys.path if "site-packages" not in entry]
        sys.argv = ["floodmark", "estimate", "train.py"]
        from floodmark.__main__ import main
        sys.exit(main())
        """,
        "bare.py",
    )
    package = Path(floodmark.__file__).parents[1]
    done = programs.python("-S", "bare.py", env={"PYTHONPATH": str(package)})
    assert done.returncode == 1
    error, empty, hint = done.stderr.splitlines()
    assert error == f"error: torch is not installed for `{sys.executable}`"
    assert empty == ""
    assert hint.startswith("hint: `pip install torch`")
    assert done.stdout == ""
