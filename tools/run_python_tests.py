"""Runs the Python tests in several plain processes that share the files among them.

    python tools/run_python_tests.py [--processes 2] [pytest's own options and paths]

Each process collects all tests and claims one file of tests after another. Processes are plain
pytest: a worker of pytest-xdist has threads of its own, and a recording sees every thread.

Sees: pytest's command line. Does not know what the tests are about.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest


class Claims:
    """A pytest plugin that runs only the files of tests that this process claimed first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _claim(self, path: Path) -> bool:
        name = str(path).replace(os.sep, "+")
        try:
            os.close(os.open(self._folder / name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def _claimed(self, session: pytest.Session) -> Iterator[pytest.Item]:
        by_file = groupby(session.items, key=lambda item: item.path)
        files = [(path, list(items)) for path, items in by_file]
        # Files with the most tests first, so that the last ones are short.
        for path, items in sorted(files, key=lambda file: -len(file[1])):
            if self._claim(path):
                yield from items

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the claimed tests, as pytest's own loop does."""
        if session.config.option.collectonly or session.testsfailed:
            return False
        claimed = self._claimed(session)
        item = next(claimed, None)
        while item is not None:
            following = next(claimed, None)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
            item = following
        return True


def _is_success(status: int) -> bool:
    # A process that found every file claimed has run no test.
    return status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


def _run(processes: int, words: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="floodmark-tests-") as folder:
        command = [sys.executable, __file__, "--claims", folder, *words]
        logs = [Path(folder, f"{number}.log") for number in range(1, processes)]
        others = []
        for log in logs:
            with log.open("wb") as file:
                others.append(subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT))
        statuses = [subprocess.run(command).returncode]
        for log, other in zip(logs, others, strict=True):
            statuses.append(other.wait())
            print(log.read_text(errors="replace"), end="", flush=True)
    return 0 if all(map(_is_success, statuses)) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--claims", type=Path, help=argparse.SUPPRESS)
    options, words = parser.parse_known_args()
    if options.claims is None:
        return _run(options.processes, words)
    return int(pytest.main(words, plugins=[Claims(options.claims)]))


if __name__ == "__main__":
    sys.exit(main())
