"""`floodmark run`: the program does what it would have done, and there is a trace."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import pytest

import floodmark


def test_a_script_is_recorded_with_its_arguments(programs):
    source = "import sys, torch\nkept = torch.ones(1000)\nprint(sys.argv)"
    script = programs.write(source, "folder/looking.py")
    words = ["folder/looking.py", "--flag", "-m", "x", "--", "--quiet", "-o=5", "ü"]
    ours = programs.floodmark("run", "-o", "a.flood", "--quiet", *words)
    assert (ours.stdout, ours.stderr, ours.returncode) == (f"{words}\n", "", 0)
    rows = floodmark.Trace.open(programs.folder / "a.flood").peak("cpu").by_line().rows
    assert any(Path(row["file"]).samefile(script) and row["bytes"] == 4000 for row in rows), rows


def test_a_few_lines_at_the_end_name_the_trace_and_the_next_command(programs):
    programs.write("import torch\nkept = torch.ones(1 << 20)", "program.py")
    done = programs.floodmark("run", "program.py")
    assert done.returncode == 0
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert 2 <= len(lines) <= 5, done.stderr
    assert all(line.startswith("floodmark:") for line in lines)
    assert "4.000 MiB" in done.stderr
    assert "floodmark: floodmark:" not in done.stderr
    assert "floodmark report floodmark-program.flood" in lines[-1]
    # A second recording takes a new name; one that is named must not be there yet.
    assert programs.floodmark("run", "-q", "program.py").returncode == 0
    assert (programs.folder / "floodmark-program-2.flood").exists()
    again = programs.floodmark("run", "-o", "floodmark-program.flood", "program.py")
    assert again.returncode == 1
    assert "--force" in again.stderr
    forced = programs.floodmark("run", "--force", "-o", "floodmark-program.flood", "program.py")
    assert forced.returncode == 0


@pytest.mark.parametrize(
    ("source", "why"),
    [("print(1)", "did not import torch"), ("import torch", "allocated no tensor")],
)
def test_a_program_without_events_is_reported_without_a_next_command(programs, source, why):
    programs.write(source, "idle.py")
    done = programs.floodmark("run", "-o", "idle.flood", "idle.py")
    assert done.returncode == 0
    last = done.stderr.splitlines()[-1]
    wanted = f"`idle.flood` has no events: the program {why} while it was recorded"
    assert last == f"floodmark: {wanted}"
    assert "see what filled it" not in done.stderr


def test_a_program_that_could_not_start_is_reported(programs):
    programs.write("", "package/__init__.py")
    programs.write("import torch\nkept = torch.ones(9)", "busy.py")
    for words in (["-m", "absent"], ["-m", "package"], ["-m", "package.absent"], ["package"]):
        done = programs.floodmark("run", "--force", "-o", "a.flood", *words)
        assert done.returncode == 1
        said = [line for line in done.stderr.splitlines() if line.startswith("floodmark:")]
        assert said == ["floodmark: the program could not be started; `a.flood` has no events"]
    done = programs.floodmark("run", "--force", "-o", "a.flood", "-m", "busy.absent")
    assert "floodmark: the program could not be started; `a.flood` has what its" in done.stderr
    for source in ("", "1 +", "raise SystemExit(3)"):
        programs.write(source, "begun.py")
        done = programs.floodmark("run", "--force", "-o", "a.flood", "begun.py")
        assert "could not be started" not in done.stderr, source
    done = programs.floodmark("run", "--force", "-o", "a.flood", "-", input="print(2)")
    assert (done.stdout, "could not be started" in done.stderr) == ("2\n", False)


def test_a_path_that_cannot_be_written_is_a_program_that_was_not_started(programs):
    programs.write("print(1)", "program.py")
    done = programs.floodmark("run", "-o", "/proc/a.flood", "program.py")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("floodmark: the program was not started: ")
    assert "nothing is recorded" not in done.stderr


def test_what_a_terminal_would_obey_is_a_sign_in_every_message(programs):
    title = "\x1b]0;pwned\x07"
    programs.write("print(1)", f"{title}.py")
    for words in (
        ["run", f"{title}.py"],
        ["run", "-o", f"/proc/{title}.flood", f"{title}.py"],
        ["run", f"absent{title}.py"],
        ["run", f"--{title}", "program.py"],
        ["report", "--at", title],
        [title],
        ["estimate", "-o", f"absent/{title}.flood", f"{title}.py"],
    ):
        done = programs.floodmark(*words)
        assert "\x1b" not in done.stderr + done.stdout, words
        assert "␛]0;pwned␇" in done.stderr, (words, done.stderr)
    with pytest.raises(FileNotFoundError, match="␛]0;pwned␇"):
        floodmark.Trace.open(f"absent{title}.flood")


def test_after_a_failed_allocation_the_next_question_is_why(programs):
    programs.write(
        """
        import torch
        try:
            torch.empty(1 << 50, dtype=torch.uint8)
        except RuntimeError:
            pass
        """,
        "huge.py",
    )
    done = programs.floodmark("run", "-o", "huge.flood", "huge.py")
    assert "`huge.flood`: see why memory ran out with `floodmark oom huge.flood`" in done.stderr
    assert "floodmark report" not in done.stderr


def test_torch_may_come_late_or_never(programs):
    programs.write("print(sum(range(10)))", "never.py")
    done = programs.floodmark("run", "-o", "never.flood", "never.py")
    assert done.stdout == "45\n"
    assert done.returncode == 0
    assert floodmark.Trace.open(programs.folder / "never.flood").summary()["allocations"] == 0
    report = programs.floodmark("report", "never.flood")
    assert report.returncode == 1
    assert "hint" in report.stderr
    programs.write(
        """
        import sys
        assert "torch" not in sys.modules
        def late():
            import torch
            return torch.ones(1234)
        kept = late()
        """,
        "late.py",
    )
    assert programs.floodmark("run", "-o", "late.flood", "late.py").returncode == 0
    rows = floodmark.Trace.open(programs.folder / "late.flood").end("cpu").by_line().rows
    assert [row["function"] for row in rows if row["bytes"] == 4936] == ["late"]


def test_tensors_of_no_module_have_gradients_too(programs):
    programs.write(
        """
        import torch
        weight = torch.nn.Parameter(torch.ones(1001))
        plain = torch.ones(2002, requires_grad=True)
        (weight.sum() + plain.sum()).backward()
        """,
        "by_hand.py",
    )
    done = programs.floodmark("run", "-q", "-o", "a.flood", "by_hand.py")
    assert done.stderr == ""
    rows = floodmark.Trace.open(programs.folder / "a.flood").end("cpu").by_tensor(top=None).rows
    found = sorted((row["category"], row["bytes"]) for row in rows if row["shape"])
    assert found == [("gradient", 4004), ("gradient", 8008), ("parameter", 4004)]


def test_a_script_that_cannot_be_run_is_an_error_of_the_user(programs):
    missing = programs.floodmark("run", "missing.py")
    assert missing.returncode == 1
    assert "`missing.py`" in missing.stderr
    assert "Traceback" not in missing.stderr
    for words in (["run"], ["run", "--devices", "gpu", "x.py"], ["nonsense"], ["report"]):
        done = programs.floodmark(*words)
        assert done.returncode == 1, (words, done.stderr)
        assert "Traceback" not in done.stderr
    assert not list(programs.folder.glob("*.flood"))


def test_ranks_have_files_of_their_own(programs):
    programs.write("import torch\nkept = torch.ones(100)", "program.py")
    environment = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}
    done = programs.floodmark("run", "-o", "ranks", "program.py", env=environment)
    assert done.returncode == 0
    header = floodmark.Trace.open(programs.folder / "ranks" / "rank-0003.flood").header
    assert (header["rank"], header["world_size"], header["local_rank"]) == (3, 8, 1)
    assert header["torch"]
    assert "program.py" in header["command"]
    shown = programs.floodmark("report", "ranks", "--device", "cpu", "--json")
    assert json.loads(shown.stdout)["device"] == "cpu"


def test_torchrun_gives_every_rank_its_file(programs):
    pytest.importorskip("torch.distributed.run")
    programs.write(
        """
        import torch
        import torch.distributed as dist
        dist.init_process_group("gloo")
        rank = dist.get_rank()
        kept = torch.ones(1000 + rank)
        part = kept[:1000]  # kept: old gloo waits for ever for a tensor that nothing else retains
        dist.all_reduce(part)
        assert kept[0] == 2
        dist.destroy_process_group()
        """,
        "program.py",
    )
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ours = ["--no-python", sys.executable, "-m", "floodmark", "run", "-o", "ranks", "program.py"]
    done = programs.python(*launcher, *ours)
    assert done.returncode == 0, done.stderr
    ours_said = [line for line in done.stderr.splitlines() if line.startswith("floodmark: ")]
    ranks = [line.removeprefix("floodmark: ").split(":")[0] for line in ours_said]
    # Each rank names itself, and no line of the other comes between its own.
    assert [rank for rank, _ in itertools.groupby(ranks)] in (
        ["rank 0", "rank 1"],
        ["rank 1", "rank 0"],
    )
    for rank in range(2):
        trace = floodmark.Trace.open(programs.folder / "ranks" / f"rank-000{rank}.flood")
        assert trace.header["rank"] == rank
        sizes = [row["bytes"] for row in trace.peak("cpu").by_tensor()]
        assert 4 * (1000 + rank) in sizes
    again = programs.python(*launcher, "-m", "floodmark", "run", "-o", "more", "program.py")
    assert again.returncode == 0, again.stderr
    assert len(list((programs.folder / "more").glob("rank-*.flood"))) == 2


def test_a_program_that_leaves_without_a_word_has_a_trace(programs):
    programs.write("import os, torch\nkept = torch.ones(999)\nos._exit(5)", "program.py")
    done = programs.floodmark("run", "-o", "a.flood", "program.py")
    assert done.returncode == 5
    trace = floodmark.Trace.open(programs.folder / "a.flood")
    assert 3996 in [row["bytes"] for row in trace.end("cpu").by_tensor()]
