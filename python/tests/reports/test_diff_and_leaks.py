"""What grew between two recordings, and what grows from step to step."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

import floodmark


def train(
    path, *, width: int, steps: int, keep: list[torch.Tensor] | None = None
) -> floodmark.Trace:
    with floodmark.trace(path, devices=["cpu"]):
        model = nn.Sequential(nn.Linear(32, width), nn.ReLU(), nn.Linear(width, 8))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(steps):
            loss = model(torch.randn(64, 32)).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if keep is not None:
                keep.append(torch.zeros(4096))
    return floodmark.Trace.open(path)


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("diff")
    small = train(folder / "small.flood", width=64, steps=2)
    large = train(folder / "large.flood", width=256, steps=2)
    return folder, small, large


def test_a_diff_says_which_lines_grew(traces):
    _, small, large = traces
    diff = small.diff(large, top=None)
    assert diff.device == "cpu"
    total = large.peak("cpu").by_line().allocated - small.peak("cpu").by_line().allocated
    assert diff.allocated["change"] == sum(row["change"] for row in diff) == total > 0
    assert diff.peaks["allocated"] == diff.allocated
    assert diff.peaks["reserved"] is None
    sizes = [abs(row["change"]) for row in diff]
    assert sizes == sorted(sizes, reverse=True)
    grown = diff[0]
    assert grown["file"] == __file__
    assert grown["b"] - grown["a"] == grown["change"] == max(row["change"] for row in diff)


def test_a_diff_is_aligned_by_name_where_there_is_one(traces):
    _, small, large = traces
    rows = {(row["name"], row["category"]): row for row in small.diff(large, by="tensor", top=None)}
    weight = rows["0.weight", "parameter"]
    assert (weight["a"], weight["b"]) == (64 * 32 * 4, 256 * 32 * 4)
    assert (weight["count_a"], weight["count_b"]) == (1, 1)
    assert weight["shape"] == "(256, 32)"
    assert ("2.bias", "parameter") not in rows


def test_a_trace_does_not_differ_from_itself(traces):
    _, small, _ = traces
    diff = small.diff(small, by="module", at="end")
    assert len(diff) == 0
    assert "did not change" in str(diff)


def test_answers_print_as_tables_and_keep_the_contract(traces):
    _, small, large = traces
    diff = small.diff(large)
    assert json.loads(diff.to_json()) == diff.to_dict()
    assert diff.to_dict()["floodmark"] == floodmark.__version__
    assert diff.to_dict()["format"] == 1
    assert str(diff) == repr(diff)
    assert str(diff).startswith("Peak of cpu grew by ")
    assert "<table" in diff._repr_html_()


def test_a_diff_that_makes_no_sense_is_answered_with_the_way_out(traces):
    _, small, large = traces
    with pytest.raises(floodmark.FloodmarkError, match=r"(?s)first trace.*cuda:0.*hint"):
        small.diff(large, device="cuda:0")
    with pytest.raises(ValueError, match="`line`, `stack`"):
        small.diff(large, by="colour")


def test_the_command_line_tells_the_same_and_fails_above_a_limit(traces, programs):
    folder, small, large = traces
    words = ("diff", str(folder / "small.flood"), str(folder / "large.flood"))
    printed = programs.floodmark(*words, "--json")
    assert printed.returncode == 0
    assert json.loads(printed.stdout) == small.diff(large).to_dict()
    stopped = programs.floodmark(*words, "--fail-above", "1%", "--json")
    assert stopped.returncode == 1
    assert stopped.stdout == printed.stdout
    assert stopped.stderr.startswith("error: the peak of cpu grew by more than 1 %: allocated by ")
    assert stopped.stderr.count("\n") == 1


def test_a_list_that_is_never_cleared_is_found(tmp_path, programs):
    kept: list[torch.Tensor] = []
    trace = train(tmp_path / "leak.flood", width=64, steps=6, keep=kept)
    leaks = trace.leaks(device="cpu")
    (leak,) = leaks
    # What follows the optimizer's step belongs to the next one, so the last block is in none.
    assert leak["bytes_per_step"] == 4096 * 4
    assert (leak["since"], leak["steps"], leak["grew"]) == (1, 5, 5)
    assert leaks.growth == leak["growth"] == 5 * 4096 * 4
    assert leak["file"] == __file__
    assert leak["function"] == "train"
    assert leak["frames"][0]["function"] == leak["function"]
    assert "1 line on cpu grows" in str(leaks)
    printed = programs.floodmark("leaks", str(tmp_path / "leak.flood"), "--json")
    assert json.loads(printed.stdout) == leaks.to_dict()


def test_a_program_without_a_leak_has_no_suspects(tmp_path):
    leaks = train(tmp_path / "clean.flood", width=64, steps=6).leaks()
    assert list(leaks) == []
    assert leaks.growth == 0
    assert str(leaks).startswith("No leak found")


def test_two_steps_are_too_few_to_tell(traces):
    _, small, _ = traces
    with pytest.raises(floodmark.FloodmarkError, match=r"(?s)finished steps.*2.*hint"):
        small.leaks()
