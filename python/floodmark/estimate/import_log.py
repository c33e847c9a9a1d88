"""What a program imports from installed libraries, and with which environment: for a warm process.

`fit` and `plan` run a program many times. The first run writes down here what it imports, a line of
JSON for each import as soon as it is over, so that `warm_process` can import the same at the same
time, for all further runs. What a library imports while it is imported itself is left out: it
follows by itself. The program's own modules are left out too: they may have been imported for their
effects. Sees: the import system, `os.environ`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.abc
import json
import os
import site
import sys
import sysconfig
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from floodmark.reports.answer_types import Engine

#: Where to write it; `floodmark fit` and `floodmark plan` set it.
_VARIABLE = "FLOODMARK_IMPORTS_TO"


class Run(TypedDict):
    """The first line: what a warm process needs to know of a run before it imports."""

    engine: Engine
    machine: str


class Import(TypedDict):
    """A further line: a module, and what it was imported with. The last line has no name."""

    name: str
    #: The folder of the program.
    first_path: str
    #: The variables that had changed since the import before; None for unset.
    environment: dict[str, str | None]


class _Begun(NamedTuple):
    name: str
    first_path: str
    environment: dict[str, str]


class ImportLog(importlib.abc.MetaPathFinder):
    """Finds nothing, and writes down what was looked for and found by others."""

    def __init__(self, write: Callable[[str], object], run: Run) -> None:
        self._write = write
        self._pid = os.getpid()
        self._environment = dict(os.environ)
        self._seen: set[str] = set()
        #: Imports that have begun, each inside the one before it.
        self._begun: list[_Begun] = []
        self._put(run)
        sys.meta_path.insert(0, self)
        atexit.register(self.end)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> None:
        """Let the others find it."""
        with contextlib.suppress(Exception):
            self._note(fullname)

    def end(self) -> None:
        """Say that the program has ended. Raises nothing."""
        with contextlib.suppress(Exception):
            if os.getpid() == self._pid:
                self._write_ended()
                last: Import = {"name": "", "first_path": "", "environment": {}}
                self._put(last)

    def _note(self, name: str) -> None:
        if name in self._seen or os.getpid() != self._pid:
            return
        self._seen.add(name)
        self._write_ended()
        self._begun.append(_Begun(name, sys.path[0], dict(os.environ)))

    def _write_ended(self) -> None:
        """Write down the imports that are over, but for those inside of others."""
        while self._begun and not _is_importing(self._begun[-1].name):
            ended = self._begun.pop()
            is_inside = any(_is_installed(around.name) for around in self._begun)
            if is_inside or not _is_installed(ended.name):
                # A change of the environment that came with it is written with the next one.
                continue
            before, now = self._environment, ended.environment
            keys = before.keys() | now.keys() if before != now else ()
            changed = {key: now.get(key) for key in keys if now.get(key) != before.get(key)}
            self._environment = now
            line: Import = {
                "name": ended.name,
                "first_path": ended.first_path,
                "environment": changed,
            }
            self._put(line)

    def _put(self, line: Run | Import) -> None:
        self._write(json.dumps(line) + "\n")


def begin(engine: Engine, machine: str) -> None:
    """Log the imports of this process, if `fit` or `plan` wants to know them."""
    path = os.environ.pop(_VARIABLE, "")
    if not path:
        return
    # Where it cannot be written, every run is a new process.
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
        ImportLog(
            lambda text: os.write(descriptor, text.encode()), {"engine": engine, "machine": machine}
        )


def _is_importing(name: str) -> bool:
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def _is_installed(name: str) -> bool:
    """Whether a module that is imported belongs to Python or to an installed package."""
    module = sys.modules.get(name)
    if module is None or name.partition(".")[0] == "floodmark":
        return False
    spec = getattr(module, "__spec__", None)
    origin = getattr(spec, "origin", None)
    if origin in ("built-in", "frozen"):
        return True
    return isinstance(origin, str) and origin.startswith(installed_folders())


@functools.lru_cache(maxsize=1)
def installed_folders() -> tuple[str, ...]:
    """Where Python and installed packages lie, each with a slash at its end."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = {sysconfig.get_path(name) for name in names}
    with contextlib.suppress(AttributeError):
        folders |= {*site.getsitepackages(), site.getusersitepackages()}
    return tuple(folder + os.sep for folder in folders if folder)


def change_environment(changed: dict[str, str | None]) -> None:
    """Set and unset the variables that had changed before an import."""
    for key, value in changed.items():
        if value is None:
            os.environ.pop(key, None)
        else:
            os.environ[key] = value
