"""Runs a program with plain Python and with floodmark at the same time, and compares the two.

Needs no torch and no fixture: the same tests run on every Python.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from support.programs import PATIENCE

#: Where objects lie in memory differs from run to run.
_ADDRESS = re.compile(rb"0x[0-9a-f]+")
_OF_LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK")


@dataclass
class Case:
    """A program, and how it is started."""

    #: The program, or nothing where `files` has all.
    source: str = ""
    #: Other files beside it.
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    #: Python's own options.
    options: Sequence[str] = ()
    #: What is run, and its arguments.
    words: Sequence[str | bytes] = ("program.py",)
    stdin: bytes = b""
    environment: Mapping[str, str] = field(default_factory=dict)
    #: What is done in the new process before Python starts.
    before: Callable[[], object] | None = None
    #: Words in front of `python`.
    wrapper: Sequence[str] = ()
    #: What differs from run to run in stdout and stderr, as a regular expression.
    varies: bytes | None = None
    #: The oldest Python that can run it.
    since: tuple[int, int] = (3, 10)


@dataclass
class Ended:
    """What is left of a program."""

    status: int
    out: str
    err: str


class Comparison:
    """A folder with a program in it."""

    def __init__(self, folder: Path, case: Case) -> None:
        self.case = case
        self.folder = folder / "programs"
        self.folder.mkdir(exist_ok=True)
        self.trace = folder / "recorded" / "trace.flood"
        self.trace.parent.mkdir()
        environment = {key: value for key, value in os.environ.items() if key not in _OF_LAUNCHERS}
        self.environment = {**environment, "PYTHONDONTWRITEBYTECODE": "1", **case.environment}
        files = dict(case.files)
        if case.source:
            files["program.py"] = textwrap.dedent(case.source)
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                path.write_text(content)
            else:
                path.write_bytes(content)

    def plain(self) -> subprocess.Popen[bytes]:
        """`python PROGRAM`."""
        return self.start(*self.case.words)

    def recorded(self) -> subprocess.Popen[bytes]:
        """`python -m floodmark run PROGRAM`."""
        ours = ("-m", "floodmark", "run", "-q", "-o", str(self.trace))
        return self.start(*ours, *self.case.words)

    def estimated(self) -> subprocess.Popen[bytes]:
        """`python -m floodmark estimate PROGRAM`."""
        ours = ("-m", "floodmark", "estimate", "-q", "-o", str(self.trace))
        return self.start(*ours, *self.case.words)

    def start(self, *words: str | bytes) -> subprocess.Popen[bytes]:
        """`python WORDS`."""
        case = self.case
        process = subprocess.Popen(
            [*case.wrapper, sys.executable, *case.options, *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=self._prepare,
        )
        assert process.stdin is not None
        try:
            process.stdin.write(case.stdin)
            process.stdin.close()
        except BrokenPipeError:
            pass  # It does not read.
        process.stdin = None
        return process

    def _prepare(self) -> None:
        # What runs the tests may ignore signals (`nohup`, a job in the background).
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        if self.case.before is not None:
            self.case.before()

    def ended(self, process: subprocess.Popen[bytes]) -> Ended:
        """Waits for the end of a program."""
        out, err = process.communicate(timeout=PATIENCE)
        return Ended(process.returncode, self._same(out), self._same(err))

    def _same(self, text: bytes) -> str:
        text = _ADDRESS.sub(b"0x", text)
        if self.case.varies is not None:
            text = re.sub(self.case.varies, b"", text)
        return text.decode(errors="backslashreplace")


def assert_same(folder: Path, case: Case) -> Ended:
    """Whatever the program says and however it ends, it does so with floodmark too."""
    comparison = Comparison(folder, case)
    plain, recorded = comparison.plain(), comparison.recorded()
    expected, found = comparison.ended(plain), comparison.ended(recorded)
    assert found == expected
    assert comparison.trace.exists()
    return expected


def without(case: Case, text: str) -> Case:
    """The same program, without these words in its sources."""

    def cut(content: str | bytes) -> str | bytes:
        return content.replace(text, "") if isinstance(content, str) else content

    return replace(
        case,
        source=case.source.replace(text, ""),
        files={name: cut(content) for name, content in case.files.items()},
        stdin=case.stdin.replace(text.encode(), b""),
    )


def of_this_python(cases: Mapping[str, Case]) -> list[str]:
    """The names of the cases that this Python can run."""
    return [name for name, case in cases.items() if sys.version_info >= case.since]
