"""What the tests share: recordings in this process, and programs in their own."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.checkout import PROGRAMS
from support.flood_file import FloodFile
from support.integrated import Loops
from support.programs import Programs

import floodmark

pytest.register_assert_rewrite("support.transparency")
# Tests import the lists of cases of the programs that they run.
sys.path.insert(0, str(PROGRAMS))


class Recorded:
    """A recording that a test made: `file` is its second reading, `trace` is ours."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: FloodFile | None = None

    @property
    def file(self) -> FloodFile:
        if self._file is None:
            self._file = FloodFile(self.path)
        return self._file

    @property
    def trace(self) -> floodmark.Trace:
        return floodmark.Trace.open(self.path)


@pytest.fixture(scope="module", autouse=True)
def no_garbage_of_other_files() -> None:
    """A model in a reference cycle is live until it is collected, and a recording shows it."""
    gc.collect()


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., object]:
    """`with record() as recorded:` records the block with the real probe."""
    count = 0

    @contextmanager
    def recording(**options: object) -> Iterator[Recorded]:
        nonlocal count
        count += 1
        recorded = Recorded(tmp_path / f"{count}.flood")
        with floodmark.trace(recorded.path, **options) as recorder:
            yield recorded
        assert recorder.failure == ""

    return recording


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path)


@pytest.fixture(scope="session")
def loops(tmp_path_factory: pytest.TempPathFactory) -> Loops:
    return Loops(tmp_path_factory.mktemp("loops"))
