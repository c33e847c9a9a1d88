"""Where the trace cannot be written the program goes on, and one message says why."""

from __future__ import annotations

import subprocess

import pytest
import torch

import floodmark

#: Allocates until the journal and the file have met whatever is wrong with their place.
BUSY = """
    import sys, time
    import torch, floodmark

    {before}
    with floodmark.trace({path!r}) as recorder:
        kept = []
        for number in range({rounds}):
            torch.empty(1000 + number % 5000, dtype=torch.uint8)
            {during}
    print("unharmed", recorder.failure != "")
"""


def busy(path, rounds=100, before="pass", during="pass"):
    return BUSY.format(path=path, rounds=rounds, before=before, during=during)


def said(done):
    return [line for line in done.stderr.splitlines() if line.startswith("floodmark:")]


@pytest.mark.parametrize("path", ["missing/folder/a.flood", "/proc/a.flood", "."])
def test_a_path_that_cannot_be_written_prints_one_warning(capsys, tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with floodmark.trace(path) as recorder:
        assert torch.ones(10).sum() == 10
    message = capsys.readouterr().err
    assert message.count("floodmark:") == 1
    assert path in message
    assert "hint:" in message
    assert recorder.failure
    with pytest.raises(floodmark.FloodmarkError, match="nothing was recorded"):
        recorder.peak("cpu").by_line()


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting is not allowed here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=False)


def test_a_full_disk_ends_the_recording_and_not_the_program(programs, small_disk):
    done = programs.run(busy(str(small_disk / "a.flood"), 1_000_000))
    assert done.stdout == "unharmed True\n"
    assert len(said(done)) == 1, done.stderr
    assert "space" in said(done)[0]
    # What was written before can still be read, and says that it is not all.
    trace = floodmark.Trace.open(small_disk / "a.flood")
    assert trace.summary()["outcome"] == "stopped_early"
    stops = [loss for loss in trace.peak("cpu").by_line().losses if "stopped at" in loss]
    assert len(stops) == 1, stops
    assert "space" in stops[0]
    assert "the peak after that is unknown" in stops[0]


def test_a_limit_on_file_sizes_ends_the_recording_and_not_the_program(programs):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19))"
    done = programs.run(busy("a.flood", 1000, before=limit))
    assert done.stdout == "unharmed True\n"
    assert len(said(done)) == 1, done.stderr


def test_a_file_that_is_removed_meanwhile_is_reported(programs):
    during = "import os; number == 50 and os.remove('a.flood')"
    done = programs.run(busy("a.flood", during=during))
    assert done.stdout == "unharmed True\n"
    assert said(done) == [
        "floodmark: recording stopped early: the trace file was removed while it was being written"
    ]


def test_a_journal_that_is_removed_meanwhile_harms_nothing(programs):
    # In one step: the writer makes files in it at the same time.
    remove = "(os.rename('a.flood.journal', 'removed'), shutil.rmtree('removed'))"
    during = f"import os, shutil; number == 50_000 and {remove}"
    done = programs.run(busy("a.flood", 200_000, during=during))
    assert done.stdout.startswith("unharmed")
    # Records that are mapped are there; when no more can be mapped that is said.
    assert len(said(done)) <= 1
    trace = floodmark.Trace.open(programs.folder / "a.flood")
    report = trace.peak("cpu").by_line()
    assert report.losses or trace.summary()["events"] >= 400_000


def test_a_journal_that_another_program_left_is_not_overwritten(capsys, tmp_path):
    path = tmp_path / "a.flood"
    path.write_bytes(b"FLOD: what a killed program wrote")
    path.with_name("a.flood.journal").mkdir()
    path.with_name("a.flood.journal").joinpath("0.chunk").write_bytes(b"")
    with floodmark.trace(path) as recorder:
        torch.ones(10)
    assert recorder.failure
    assert path.read_bytes() == b"FLOD: what a killed program wrote"
    message = capsys.readouterr().err
    assert "journal" in message
    assert "hint:" in message


def test_an_invalid_argument_is_an_error_before_anything_runs():
    with pytest.raises(ValueError, match="no such device"):
        floodmark.trace(devices="gpu")
    with pytest.raises(ValueError, match="a size is a number of bytes"):
        floodmark.trace(max_memory="a lot")
    with pytest.raises(ValueError, match="needs a name"), floodmark.phase(""):
        pass
