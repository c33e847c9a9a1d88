"""What a program imports from installed libraries, and with which environment: for a warm process.

`fit` and `plan` run a program many times. The first run writes down here what it imported, so that
`warm_process` can import the same once for all further runs. The program's own modules are left
out: they may have been imported for their effects. Sees: the import system, `os.environ`.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.abc
import json
import os
import site
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from floodmark.reports.answer_types import Engine

#: Where to write it; `floodmark fit` and `floodmark plan` set it.
_VARIABLE = "FLOODMARK_IMPORTS_TO"


class Import(TypedDict):
    """A module, and the variables that had changed since the import before; None for unset."""

    name: str
    environment: dict[str, str | None]


class Imports(TypedDict):
    """All that a warm process needs to know of a run."""

    engine: Engine
    machine: str
    #: The folder of the program.
    first_path: str
    imports: list[Import]


class ImportLog(importlib.abc.MetaPathFinder):
    """Finds nothing, and remembers what was looked for."""

    def __init__(self, path: Path, engine: Engine, machine: str) -> None:
        self._path = path
        self._engine: Engine = engine
        self._machine = machine
        self._pid = os.getpid()
        self._environment = dict(os.environ)
        self._first_path = ""
        self._imports: dict[str, Import] = {}
        sys.meta_path.insert(0, self)
        atexit.register(self.write)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> None:
        """Let the others find it."""
        with contextlib.suppress(Exception):
            self._note(fullname)

    def _note(self, name: str) -> None:
        if name in self._imports or os.getpid() != self._pid:
            return
        self._first_path = sys.path[0]
        now = dict(os.environ)
        before, self._environment = self._environment, now
        changed: dict[str, str | None] = {}
        if now != before:
            changed = {
                key: now.get(key) for key in (*before, *now) if now.get(key) != before.get(key)
            }
        self._imports[name] = {"name": name, "environment": changed}

    def write(self) -> None:
        """Write down what is imported now. Raises nothing."""
        if os.getpid() != self._pid:
            return
        with contextlib.suppress(Exception):
            found: Imports = {
                "engine": self._engine,
                "machine": self._machine,
                "first_path": self._first_path,
                "imports": [one for one in self._imports.values() if _is_installed(one["name"])],
            }
            partial = self._path.with_suffix(".partial")
            partial.write_text(json.dumps(found))
            partial.rename(self._path)


def begin(engine: Engine, machine: str) -> None:
    """Log the imports of this process, if `fit` or `plan` wants to know them."""
    path = os.environ.pop(_VARIABLE, "")
    if path:
        ImportLog(Path(path), engine, machine)


def _is_installed(name: str) -> bool:
    """Whether a module that is imported belongs to Python or to an installed package."""
    module = sys.modules.get(name)
    if module is None or name.partition(".")[0] == "floodmark":
        # An environment that was changed before it is set with the next one.
        return False
    spec = getattr(module, "__spec__", None)
    origin = getattr(spec, "origin", None)
    if origin in ("built-in", "frozen"):
        return True
    return isinstance(origin, str) and origin.startswith(_folders())


def _folders() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = {sysconfig.get_path(name) for name in names}
    with contextlib.suppress(AttributeError):
        folders |= {*site.getsitepackages(), site.getusersitepackages()}
    return tuple(folder + os.sep for folder in folders if folder)
