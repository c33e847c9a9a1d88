"""Runs every command that reads a trace in this process, and judges its answer."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from floodmark import _core

#: Formats of `export`, one for each damaged file in turn.
_FORMATS = (
    *("csv", "csv-steps", "collapsed", "speedscope", "chrome", "perfetto", "torch-snapshot"),
    *("flamegraph", "svg", "timeline", "tensorboard", "parquet", "arrow", "html"),
)
_GROUPS = ("line", "stack", "module", "phase", "category", "tensor", "step", "segment")


@dataclass(frozen=True)
class Answer:
    """The exit status and the output of a command."""

    status: int
    stdout: bytes
    stderr: bytes


def command_lines(name: str, whole: str, number: int) -> list[list[str]]:
    """The commands for the damaged file `name` and the whole file `whole`."""
    group = _GROUPS[number % len(_GROUPS)]
    form = _FORMATS[number % len(_FORMATS)]
    return [
        ["info", name],
        ["info", "--json", name],
        ["report", name, "--top", "0"],
        ["report", name, "--json", "--by", group],
        ["report", name, "--csv", "--by", group],
        ["diff", whole, name],
        ["leaks", name],
        ["oom", name],
        ["simulate", name],
        ["advise", name],
        ["top", "--once", name],
        ["metrics", "--once", name],
        ["export", name, "--to", form, "-o", "out", "--force"],
    ]


class Capture:
    """stdout and stderr of this process as files, from the beginning for every command."""

    def __init__(self) -> None:
        self._files = [os.memfd_create(name) for name in ("stdout", "stderr")]

    def run(self, words: list[str]) -> Answer:
        """Run a command in this process."""
        kept = [os.dup(number) for number in (1, 2)]
        for number, file in zip((1, 2), self._files, strict=True):
            os.ftruncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)
            os.dup2(file, number)
        try:
            status = _core.main(["floodmark", *words], sys.executable)
        finally:
            for number, file in zip((1, 2), kept, strict=True):
                os.dup2(file, number)
                os.close(file)
        assert isinstance(status, int)
        said = [os.pread(file, os.fstat(file).st_size, 0) for file in self._files]
        return Answer(status, said[0], said[1])


def with_output(answer: Answer, out: Path) -> Answer:
    """The answer with what an export wrote."""
    if out.is_dir():
        files = sorted(path for path in out.rglob("*") if path.is_file())
        content = b"".join(path.name.encode() + path.read_bytes() for path in files)
    else:
        content = out.read_bytes() if out.exists() else b""
    return Answer(answer.status, answer.stdout + content, answer.stderr)


def losses(answer: Answer) -> set[str]:
    """The sentences about lost events in an answer."""
    found = set()
    for text in (answer.stdout, answer.stderr):
        for line in text.decode(errors="replace").splitlines():
            words = re.sub(r"\x1b\[[0-9;]*m", "", line).strip()
            is_gauge = words.startswith("floodmark_losses") and not words.endswith(" 0")
            if is_gauge or words.startswith("! "):
                found.add(words)
    try:
        document = json.loads(answer.stdout)
    except ValueError:
        return found
    stack = [document]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            found.update(str(loss) for loss in value.get("losses") or [])
            stack.extend(value.values())
        elif isinstance(value, list):
            stack.extend(value)
    return found


def verdict(whole: Answer, damaged: Answer) -> str:
    """`failed`, `refused`, `same`, `stated` or `silent`."""
    if damaged.status not in (0, 1) or b"panicked at" in damaged.stderr:
        return "failed"
    if damaged.status == 1 and b"error: " in damaged.stderr:
        is_same = whole.status == 1 and whole.stderr == damaged.stderr
        return "same" if is_same else "refused"
    if damaged == whole:
        return "same"
    stated = losses(damaged)
    # Metrics have a number instead of sentences: any but 0 means incomplete figures.
    has_gauge = any(line.startswith("floodmark_losses") for line in stated)
    return "stated" if has_gauge or stated - losses(whole) else "silent"
