"""Logs a program's imports of installed libraries and their environment, for a warm process.

`fit` and `plan` run a program many times. The first run writes a line of JSON after each import, so
that `warm_process` can repeat the imports meanwhile for all further runs. Imports of libraries
inside other imports are left out, because those repeat them. The program's own modules are left out
too: a program may import them for their effects. Sees: the import system, `os.environ`.
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

from floodmark import own_code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from floodmark.reports.answer_types import Engine

#: The path of the log; `floodmark fit` and `floodmark plan` set it.
_VARIABLE = "FLOODMARK_IMPORTS_TO"


class Run(TypedDict):
    """The first line of the log: facts about the run before its imports."""

    engine: Engine
    machine: str


class Import(TypedDict):
    """A further line: a module and its environment. The last line has no name."""

    name: str
    #: The folder of the program.
    first_path: str
    #: The variables that changed since the previous import; None for unset.
    environment: dict[str, str | None]


class _Begun(NamedTuple):
    name: str
    first_path: str
    environment: dict[str, str]


class ImportLog(importlib.abc.MetaPathFinder):
    """A finder that finds nothing; logs the modules that other finders find."""

    def __init__(self, write: Callable[[str], object], run: Run) -> None:
        self._write = write
        self._pid = os.getpid()
        self._environment = dict(os.environ)
        self._seen: set[str] = set()
        #: Imports that have begun, outermost first.
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
        """Log the import; returns None, so that the next finder is called."""
        with contextlib.suppress(Exception):
            self._note(fullname)

    def end(self) -> None:
        """Log the end of the program. Never raises."""
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
        """Log the completed imports that are not inside others."""
        while self._begun and not _is_importing(self._begun[-1].name):
            ended = self._begun.pop()
            is_inside = any(_is_installed(around.name) for around in self._begun)
            if is_inside or not _is_installed(ended.name):
                # A change of the environment during this import is logged with the next one.
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
    """Log the imports of this process, if `fit` or `plan` requested it."""
    path = os.environ.pop(_VARIABLE, "")
    if not path:
        return
    # Without a log, every run is a new process.
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
    if module is None or own_code.is_own_module(name):
        return False
    spec = getattr(module, "__spec__", None)
    origin = getattr(spec, "origin", None)
    if origin in ("built-in", "frozen"):
        return True
    return isinstance(origin, str) and origin.startswith(installed_folders())


@functools.lru_cache(maxsize=1)
def installed_folders() -> tuple[str, ...]:
    """The folders of Python and installed packages, each with a slash at its end."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = {sysconfig.get_path(name) for name in names}
    with contextlib.suppress(AttributeError):
        folders |= {*site.getsitepackages(), site.getusersitepackages()}
    return tuple(folder + os.sep for folder in folders if folder)


def change_environment(changed: dict[str, str | None]) -> None:
    """Set and unset the variables that changed before an import."""
    for key, value in changed.items():
        if value is None:
            os.environ.pop(key, None)
        else:
            os.environ[key] = value
