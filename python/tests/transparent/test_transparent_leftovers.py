"""What a program does with its process, its folder and its names does not disturb the recorder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.programs import PATIENCE

import floodmark


def python(folder: Path, *words: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
    """`python WORDS` in a folder."""
    return subprocess.Popen(
        [sys.executable, *words], cwd=folder, stdout=subprocess.PIPE, stderr=stderr, text=True
    )


def run(folder: Path, source: str, *before: str, stderr: int = subprocess.PIPE) -> tuple[int, str]:
    """The status and the output of a program."""
    (folder / "program.py").write_text(source)
    process = python(folder, *before, "program.py", stderr=stderr)
    out, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, out


RECORDED = ("-m", "floodmark", "run", "-o", "trace.flood")


def test_programs_that_start_together_have_names_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("print('ran')")
    words = ("-m", "floodmark", "run", "-q", "program.py")
    processes = [python(tmp_path, *words) for _ in range(16)]
    ended = [(*process.communicate(timeout=PATIENCE), process.returncode) for process in processes]
    assert ended == [("ran\n", "", 0)] * 16
    assert len(list(tmp_path.glob("floodmark-program*.flood"))) == 16


def live_bytes(path: Path) -> list[int]:
    """What each line has at the end of a recording."""
    return [row["bytes"] for row in floodmark.Trace.open(path).end("cpu").by_line()]


def test_a_recording_that_is_left_open_is_whole(tmp_path: Path) -> None:
    source = "import floodmark, torch; floodmark.start('trace.flood'); kept = torch.ones(1000)"
    assert run(tmp_path, source)[0] == 0
    assert not (tmp_path / "trace.flood.journal").exists()
    assert 4000 in live_bytes(tmp_path / "trace.flood")


def test_a_program_may_replace_getpid(tmp_path: Path) -> None:
    source = "import os; os.getpid = lambda: 1\nimport torch; kept = torch.ones(1000)"
    assert run(tmp_path, source, *RECORDED)[0] == 0
    assert not (tmp_path / "trace.flood.journal").exists()
    assert 4000 in live_bytes(tmp_path / "trace.flood")


def test_a_lost_stderr_does_not_end_a_program(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    source = "import signal; signal.signal(signal.SIGPIPE, signal.SIG_DFL)"
    try:
        assert run(tmp_path, source, *RECORDED, stderr=write)[0] == 0
        assert run(tmp_path, "", *RECORDED[:-1], "other.flood", stderr=write)[0] == 0
    finally:
        os.close(write)


def test_odd_names_and_a_folder_that_is_gone_raise_nothing(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    source = f"""
import os, floodmark
os.chdir({os.fspath(gone)!r})
os.rmdir({os.fspath(gone)!r})
with floodmark.trace("trace.flood"):
    pass
with floodmark.trace() as recorder:
    floodmark.mark("a\\udcff")
    with floodmark.phase("b\\udcff"), recorder.phase("c\\udcff"):
        print("went on")
"""
    assert run(tmp_path, source) == (0, "went on\n")


def test_a_report_says_that_stacks_were_cut(tmp_path: Path) -> None:
    source = """
import sys, torch
sys.setrecursionlimit(5000)
def descend(calls):
    return torch.ones(8) if calls == 0 else descend(calls - 1)
kept = descend(3000)
"""
    assert run(tmp_path, source, *RECORDED)[0] == 0
    header = floodmark.Trace.open(tmp_path / "trace.flood").header
    assert [remark for remark in header["not_recorded"] if "2,048 frames" in remark]
