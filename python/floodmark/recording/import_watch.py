"""Tells when torch has been imported, at once or later or never.

Sees: the import system. Knows nothing of torch.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

#: Callbacks for a module whose import was under way before the watch began.
_executing: dict[str, list[Callable[[ModuleType], None]]] = {}


@contextmanager
def executing(name: str) -> Iterator[None]:
    """Tell those of a module who begin to watch it in this block, which executes it."""
    told = _executing[name] = []
    try:
        yield
    finally:
        del _executing[name]
    for tell in told:
        tell(sys.modules[name])


class _Loader(importlib.abc.Loader):
    """Does what the module's own loader does, then tells."""

    def __init__(self, loader: importlib.abc.Loader, tell: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._tell = tell

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # From here on the module shows its own loader, as if we had not been there.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._tell(module)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, tell: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._tell = tell

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        # Only those behind us: another watch asks the others too, and would ask us again.
        behind = sys.meta_path.index(self) + 1 if self in sys.meta_path else 0
        for finder in sys.meta_path[behind:]:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: importlib.machinery.ModuleSpec | None = find(fullname, path, target)
            if spec is not None:
                if isinstance(spec.loader, importlib.abc.Loader):
                    spec.loader = _Loader(spec.loader, self._tell)
                return spec
        return None


class ImportWatch:
    """Calls `tell` with the module once it is imported; `stop` undoes the watching."""

    def __init__(self, name: str, tell: Callable[[ModuleType], None]) -> None:
        self._finder: _Finder | None = None
        self._is_stopped = False
        if name in _executing:
            _executing[name].append(lambda module: None if self._is_stopped else tell(module))
            return
        module = sys.modules.get(name)
        # A module that is being imported right now is not ready yet: its spec says so.
        if module is not None and not getattr(module.__spec__, "_initializing", False):
            tell(module)
            return

        def told(module: ModuleType) -> None:
            self.stop()
            tell(module)

        self._finder = _Finder(name, told)
        sys.meta_path.insert(0, self._finder)

    def stop(self) -> None:
        """Watch no more."""
        self._is_stopped = True
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        self._finder = None
