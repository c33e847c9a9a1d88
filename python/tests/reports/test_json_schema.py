"""Every JSON answer is as `docs/reference/schema.json` describes it.

Those of `estimate` and `fit` are checked where these commands are tried: in `estimate/`.
"""

from __future__ import annotations

import copy
import json
import shutil

import jsonschema
import pytest
import torch
from support.answer_schema import SCHEMA, check_answer
from support.checkout import FIXTURES
from torch import nn

import floodmark
from floodmark import _core

ALLOCATOR = FIXTURES / "recordings" / "allocator"
BYS = SCHEMA["$defs"]["By"]["enum"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A recording with steps, modules and a leak; snapshots of torch, one of an OOM."""
    folder = tmp_path_factory.mktemp("json")
    kept = []
    with floodmark.trace(folder / "step.flood", devices=["cpu"], ops=True):
        model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(5):
            model(torch.randn(64, 32)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            kept.append(torch.zeros(4096))
    shutil.copy(ALLOCATOR / "default-varlen.pickle.gz", folder / "varlen.pickle.gz")
    shutil.copy(ALLOCATOR / "default-oom.pickle.gz", folder / "oom.pickle.gz")
    (folder / "ranks").mkdir()
    for rank in range(2):
        shutil.copy(folder / "step.flood", folder / "ranks" / f"rank-{rank}.flood")
    return folder


@pytest.fixture
def answer(folder, monkeypatch, capfd):
    """What `floodmark WORDS --json` prints."""
    monkeypatch.chdir(folder)

    def ask(words: str):
        assert _core.main(["floodmark", *words.split(), "--json"], "python") == 0
        return json.loads(capfd.readouterr().out)

    return ask


@pytest.mark.parametrize("by", BYS)
def test_reports_are_as_described(answer, by):
    traces = ["varlen.pickle.gz"] if by == "segment" else ["step.flood", "varlen.pickle.gz"]
    for trace in traces:
        found = answer(f"report {trace} --by {by}")
        assert found["rows"]
        check_answer("report", found)


@pytest.mark.parametrize("by", [by for by in BYS if by != "segment"])
def test_diffs_are_as_described(answer, by):
    found = answer(f"diff varlen.pickle.gz oom.pickle.gz --by {by}")
    check_answer("diff", found)
    assert found["rows"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("report", "report oom.pickle.gz --at oom"),
        ("report", "report step.flood --at 0"),
        ("leaks", "leaks step.flood"),
        ("info", "info step.flood"),
        ("info", "info ranks"),
        ("oom", "oom oom.pickle.gz"),
        ("simulate", "simulate varlen.pickle.gz --sweep"),
        ("simulate", "simulate varlen.pickle.gz --memory 1GiB"),
        ("advise", "advise step.flood"),
        ("advise", "advise varlen.pickle.gz"),
        ("gpus", "gpus"),
    ],
)
def test_an_answer_is_as_described(answer, command, words):
    check_answer(command, answer(words))


def test_every_answer_of_the_schema_is_a_command_with_json(capfd):
    assert _core.main(["floodmark", "schema"], "python") == 0
    assert json.loads(capfd.readouterr().out) == SCHEMA
    for command in SCHEMA["properties"]:
        assert _core.main(["floodmark", *command.split(), "--help"], "python") == 0
        assert "--json" in capfd.readouterr().out, command


def test_a_field_that_is_wrong_or_not_described_is_found(answer):
    found = answer("report step.flood --by tensor")
    check_answer("report", found)
    for path, value in [
        (("allocated",), "many"),
        (("surprise",), 1),
        (("rows", 0, "category"), "other"),
        (("rows", 0, "surprise"), 1),
        (("at", "surprise"), 1),
    ]:
        changed = copy.deepcopy(found)
        inner = changed
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value
        with pytest.raises(jsonschema.ValidationError):
            check_answer("report", changed)
    del found["rows"][0]["freed_seconds"]
    with pytest.raises(jsonschema.ValidationError):
        check_answer("report", found)
