"""The steps of `action.yml`, run on two commits of a small repository."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from check_commands import ROOT

yaml = pytest.importorskip("yaml")

TRAIN = """
import torch
from torch import nn

model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512)).cuda()
for _ in range(2):
    model(torch.randn(ROWS, 512, device="cuda")).square().mean().backward()
"""
#: In place of GitHub's `gh`: keeps the comments of one pull request in a file.
GH = """
import json, pathlib, sys
kept = pathlib.Path(__file__).with_name("comments.json")
comments = json.loads(kept.read_text()) if kept.exists() else []
words = sys.argv[1:]
body = [pathlib.Path(word[6:]).read_text() for word in words if word.startswith("body=@")]
if "POST" in words:
    comments.append(body[0])
elif "PATCH" in words:
    [number] = [word.rpartition("/")[2] for word in words if "/comments/" in word]
    comments[int(number)] = body[0]
else:
    marker = words[words.index("--jq") + 1].split('"')[1]
    print("\\n".join(str(n) for n, text in enumerate(comments) if text.startswith(marker)))
kept.write_text(json.dumps(comments))
"""


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=test", "-c", "user.email=test@example.invalid"]
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


class Runner:
    """Runs the shell steps of the action as GitHub would. Steps of other actions are left out."""

    def __init__(self, folder: Path, inputs: dict[str, str]) -> None:
        self.action: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
        self.repository = folder / "repository"
        self.repository.mkdir()
        git(self.repository, "init", "--quiet")
        self.commits: list[str] = []
        tools = folder / "bin"
        tools.mkdir()
        (tools / "gh.py").write_text(GH)
        for name, script in (("gh", f' "{tools}/gh.py"'), ("python", "")):
            (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{script} "$@"\n')
            (tools / name).chmod(0o755)
        self.comments = tools / "comments.json"
        self.temp = folder / "temp"
        self.output = folder / "output"
        self.output.touch()
        self.summary = folder / "summary.md"
        path = f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment = {
            **os.environ,
            "PATH": path,
            "GITHUB_OUTPUT": str(self.output),
            "GITHUB_STEP_SUMMARY": str(self.summary),
        }
        self.inputs = {"install": "", **inputs}
        #: Which job of how many the matrix has.
        self.matrix = (0, 1)

    def commit(self, program: str) -> None:
        (self.repository / "train.py").write_text(program)
        git(self.repository, "add", "train.py")
        git(self.repository, "commit", "--quiet", "--message", "Change it")
        self.commits.append(git(self.repository, "rev-parse", "HEAD"))

    def _value(self, name: str) -> str:
        context = {
            "runner.temp": str(self.temp),
            "github.workspace": str(self.repository),
            "github.action_path": str(ROOT),
            "github.server_url": "https://git.example.invalid",
            "github.repository": "someone/something",
            "github.run_id": "7",
            "github.token": "secret",
            "github.job": "memory",
            "strategy.job-index": str(self.matrix[0]),
            "strategy.job-total": str(self.matrix[1]),
            "github.event.pull_request.number": "3",
            "github.event.pull_request.base.sha": self.commits[0],
        }
        kind, _, key = name.partition(".")
        if kind == "inputs":
            default = self.action["inputs"][key].get("default", "")
            return self.inputs.get(key, self.expand(default))
        if name.startswith("steps.compare.outputs."):
            lines = dict(line.split("=", 1) for line in self.output.read_text().splitlines())
            return lines.get(name.rpartition(".")[2], "")
        return context[name]

    def expand(self, text: str) -> str:
        return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda found: self._value(found[1]), text)

    def _is_run(self, condition: str) -> bool:
        inner = condition.removeprefix("${{ ").removesuffix(" }}")
        inner = inner.replace("!cancelled()", "True").replace("always()", "True")
        value = re.sub(
            r"\b(?:inputs|github|steps)\.[\w.-]+", lambda found: repr(self._value(found[0])), inner
        )
        return bool(eval(value.replace("&&", " and ")))

    def run(self) -> int:
        """Runs the steps until one fails; those with `always()` run also then."""
        status = 0
        for step in self.action["runs"]["steps"]:
            condition = step.get("if", "")
            if "run" not in step or (condition and not self._is_run(condition)):
                continue
            if status and "always()" not in condition:
                continue
            given = {name: self.expand(value) for name, value in step["env"].items()}
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=self.repository,
                env={**self.environment, **given},
                capture_output=True,
                text=True,
            )
            self.last = done.stdout + done.stderr
            status = status or done.returncode
        return status

    def posted(self) -> list[str]:
        comments: list[str] = json.loads(self.comments.read_text())
        return comments


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Runner, int]:
    inputs = {"program": "train.py", "fail-above": "5%", "gpu": "rtx4090", "steps": "2"}
    runner = Runner(tmp_path_factory.mktemp("action"), inputs)
    runner.commit(TRAIN.replace("ROWS", "32"))
    runner.commit(TRAIN.replace("ROWS", "4096"))
    return runner, runner.run()


def test_a_change_that_needs_more_fails_and_says_where(grown: tuple[Runner, int]) -> None:
    runner, status = grown
    assert status == 1
    [text] = runner.posted()
    assert "### Memory of `train.py` on a simulated NVIDIA GeForce RTX 4090" in text
    base, head = (commit[:7] for commit in runner.commits)
    assert f"| base `{base}` | this change `{head}` | change |" in text
    assert re.search(
        r"\| peak allocated \| [\d.]+ MiB \| [\d.]+ MiB \| \+[\d.]+ MiB \(\+[\d.]+ %\) \|", text
    )
    assert "**Above the limit**: the peak of cuda:0 grew by more than 5 %" in text
    assert re.search(r"\| \+[^|]+ \| [^|]+ \| [^|]+ \| `train.py:7` `<module>` \|", text)
    assert "(https://git.example.invalid/someone/something/actions/runs/7)" in text
    assert runner.summary.read_text() == text
    outputs = dict(line.split("=") for line in runner.output.read_text().splitlines())
    assert outputs["grew"] == "true"
    assert int(outputs["peak-reserved"]) > int(outputs["peak-allocated"]) > 4096 * 2048 * 4
    results = {path.name for path in Path(outputs["results"]).iterdir()}
    assert results == {"base.flood", "head.flood", "page.html", "comment.md"}
    assert outputs["artifact"] == "floodmark-memory"
    assert "(artifact `floodmark-memory`)" in text
    assert git(runner.repository, "worktree", "list").count("\n") == 0, "the base is removed"


def test_a_program_that_fails_is_named_in_the_same_comment(grown: tuple[Runner, int]) -> None:
    runner, _ = grown
    runner.commit("raise SystemExit('no data')")
    runner.commits[0] = runner.commits[-1]
    runner.output.write_text("")
    assert runner.run() == 1
    assert "::error::this change gave no trace: " in runner.last
    [text] = runner.posted()
    assert "This change gave no trace: `" in text
    assert "| verdict | unknown | unknown |  |" in text
    # A second use in one job has an artifact of its own.
    assert "artifact=floodmark-memory-use2" in runner.output.read_text().splitlines()


#: In place of pip: says what it is asked to install.
PIP = """#!/bin/sh
[ "$1 $2" != "-m pip" ] || { shift 2; printf '%s\\n' "$@"; exit; }
exec false
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [str(ROOT)]),
        ({"install": "action"}, [str(ROOT)]),
        ({"install": "torch ./floodmark.whl"}, ["torch", "./floodmark.whl"]),
    ],
)
def test_by_default_pip_installs_the_checkout_of_the_action(
    tmp_path: Path, given: dict[str, str], expected: list[str]
) -> None:
    runner = Runner(tmp_path, {"program": "train.py"})
    del runner.inputs["install"]
    runner.inputs |= given
    runner.commit("")
    (tmp_path / "bin/python").write_text(PIP)
    step = runner.action["runs"]["steps"][0]
    assert step["name"] == "Install floodmark"
    runner.action["runs"]["steps"] = [step]
    assert runner.run() == 0, runner.last
    assert runner.last.splitlines() == ["install", "--quiet", *expected]


def test_jobs_of_a_matrix_have_artifacts_of_their_own(tmp_path: Path) -> None:
    runner = Runner(tmp_path, {"program": "missing.py", "comment": "false"})
    runner.commit("")
    names = []
    for index in range(2):
        runner.matrix = (index, 2)
        runner.temp = tmp_path / f"temp{index}"
        runner.output.write_text("")
        assert runner.run() == 1
        lines = dict(line.split("=", 1) for line in runner.output.read_text().splitlines())
        names.append(lines["artifact"])
        assert (Path(lines["results"]) / "comment.md").exists()
    assert names == ["floodmark-memory-0", "floodmark-memory-1"]
