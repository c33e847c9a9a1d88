"""torch's own snapshots, and what would have been: the same answers as the commands print."""

from __future__ import annotations

import json

import pytest
from support.checkout import FIXTURES

import floodmark

RECORDINGS = FIXTURES / "recordings" / "allocator"
MIB = 1 << 20


def truth(name: str) -> dict:
    return json.loads((RECORDINGS / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def varlen() -> floodmark.Trace:
    return floodmark.Trace.open(RECORDINGS / "default-varlen.pickle.gz")


@pytest.fixture(scope="module")
def failed() -> floodmark.Trace:
    return floodmark.Trace.open(RECORDINGS / "default-oom.pickle.gz")


def test_a_snapshot_opens_as_a_trace(varlen):
    stats = truth("default-varlen")["stats"]
    (device,) = varlen.summary()["devices"]
    assert device["peak"] == stats["allocated_bytes.all.peak"]
    assert device["reserved_peak"] == stats["reserved_bytes.all.peak"]
    report = varlen.peak().by_line()
    assert report.device == "cuda:0"
    assert report.allocated == device["peak"]


def test_one_recording_answers_for_other_settings(varlen):
    found = varlen.simulate(["", "expandable_segments:True", "max_split_size_mb:64"])
    assert found.is_reproduced
    names = ["default-varlen", "expandable-varlen", "split64-varlen"]
    recorded = [truth(name)["stats"]["reserved_bytes.all.peak"] for name in names]
    assert [run["peak_reserved"] for run in found] == recorded
    assert found.recorded["peak_reserved"] == recorded[0]
    assert found.best == found[1]
    assert len(varlen.simulate("expandable_segments:True")) == 1
    assert [run["alloc_conf"] for run in varlen.simulate()] == [""]


def test_a_smaller_gpu_runs_out_of_memory(varlen):
    tight = truth("default-tight")
    memory = int(tight["total"] * tight["fraction"])
    (run,) = varlen.simulate(memory=memory)
    assert run["memory"] == memory
    assert run["peak_reserved"] == tight["stats"]["reserved_bytes.all.peak"]
    assert run["retries"] == tight["stats"]["num_alloc_retries"]
    assert run["oom"]["requested"] == 560_128_000


def test_settings_that_make_no_sense_are_wrong_values(varlen):
    with pytest.raises(ValueError, match=r"(?s)option:value.*hint: for instance"):
        varlen.simulate("expandable_segments")
    with pytest.raises(ValueError, match=r"(?s)pinned.*hint: leave it out"):
        varlen.simulate("pinned_use_background_threads:True")
    with pytest.raises(ValueError, match=r"no version of torch: `new`"):
        varlen.simulate(torch="new")
    with pytest.raises(floodmark.FloodmarkError, match=r"(?s)needs the memory of the GPU.*hint"):
        varlen.simulate("per_process_memory_fraction:0.5")


def test_a_failure_is_explained_and_is_a_moment(failed):
    found = failed.oom(top=3)
    stats = truth("default-oom")["stats"]
    assert found.why == "capacity"
    assert found.requested == 250 * MIB
    assert len(found) == 3
    assert found.to_dict()["limit"] == stats["reserved_bytes.all.peak"]
    assert found.by_line().allocated == found.to_dict()["allocated"]
    assert found.by_segment().to_dict()["fragmentation"]["at"]["free"] == found.to_dict()["free"]


def test_where_nothing_failed_there_is_nothing_to_explain(varlen):
    with pytest.raises(floodmark.FloodmarkError, match=r"(?s)no allocation failed.*hint"):
        varlen.oom()


def test_advice_is_what_the_simulation_says(varlen):
    advice = varlen.advise()
    settings = next(row for row in advice if row["kind"] == "allocator_settings")
    best = varlen.simulate(sweep=True).best
    assert best is not None
    assert settings["peak_reserved"] == best["peak_reserved"]
    saved = truth("default-varlen")["stats"]["reserved_bytes.all.peak"] - best["peak_reserved"]
    assert settings["saves_reserved"] == saved > 0
    assert best["alloc_conf"] in settings["change"]
    assert "no line grows from step to step" in advice.notes


@pytest.mark.parametrize(
    ("words", "name", "ask"),
    [
        (["simulate", "--sweep"], "default-oom", lambda trace: trace.simulate(sweep=True)),
        (["oom"], "default-oom", lambda trace: trace.oom()),
        (["advise"], "default-varlen", lambda trace: trace.advise()),
    ],
)
def test_the_command_line_tells_the_same(programs, words, name, ask):
    path = str(RECORDINGS / f"{name}.pickle.gz")
    answer = ask(floodmark.Trace.open(path))
    printed = programs.floodmark(*words, path)
    plan = "hint: find changes that make the whole run fit: `floodmark plan train.py`\n"
    assert (printed.returncode, printed.stderr) == (0, "" if words[0] == "simulate" else plan)
    assert printed.stdout == str(answer) == repr(answer)
    printed = programs.floodmark(*words, path, "--json")
    assert json.loads(printed.stdout) == answer.to_dict() == json.loads(answer.to_json())
    assert answer.device == "cuda:0"
    html = answer._repr_html_()
    assert "<table" in html
    assert "<script" not in html


def test_a_file_that_is_no_snapshot_is_an_error(tmp_path):
    other = tmp_path / "other.pickle"
    for content in (b"\x80\x04]\x94(K\x01K\x02e.", b"\x80\x04}\x94\x8c\x08seg"):
        other.write_bytes(content)
        with pytest.raises(floodmark.SnapshotError, match=r"(?s)other\.pickle.*hint: "):
            floodmark.Trace.open(other)
    assert issubclass(floodmark.SnapshotError, floodmark.FloodmarkError)
