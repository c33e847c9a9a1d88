"""Calls a function once a module is imported: at once if it is already.

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

#: Callbacks of watches that began while `executing` ran their module.
_executing: dict[str, list[Callable[[ModuleType], None]]] = {}


@contextmanager
def executing(name: str) -> Iterator[None]:
    """Execute module `name` in this block; watches that begin inside are called after it."""
    callbacks = _executing[name] = []
    try:
        yield
    finally:
        del _executing[name]
    for on_import in callbacks:
        on_import(sys.modules[name])


class _Loader(importlib.abc.Loader):
    """Does what the module's own loader does, then calls back."""

    def __init__(
        self, loader: importlib.abc.Loader, on_import: Callable[[ModuleType], None]
    ) -> None:
        self._loader = loader
        self._on_import = on_import

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # Restore the module's own loader: programs read `__loader__`.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._on_import(module)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, name: str, on_import: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._on_import = on_import

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        # Only the finders after this one: another watch would call this one again, without an end.
        behind = sys.meta_path.index(self) + 1 if self in sys.meta_path else 0
        for finder in sys.meta_path[behind:]:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec: importlib.machinery.ModuleSpec | None = find(fullname, path, target)
            if spec is not None:
                if isinstance(spec.loader, importlib.abc.Loader):
                    spec.loader = _Loader(spec.loader, self._on_import)
                return spec
        return None


class ImportWatch:
    """Calls `on_import` with the module once it is imported; `stop` undoes the watching."""

    def __init__(self, name: str, on_import: Callable[[ModuleType], None]) -> None:
        self._finder: _Finder | None = None
        self._is_stopped = False
        if name in _executing:
            _executing[name].append(lambda module: None if self._is_stopped else on_import(module))
            return
        module = sys.modules.get(name)
        # The spec of a module that is still being imported has `_initializing`.
        if module is not None and not getattr(module.__spec__, "_initializing", False):
            on_import(module)
            return

        def imported(module: ModuleType) -> None:
            self.stop()
            on_import(module)

        self._finder = _Finder(name, imported)
        sys.meta_path.insert(0, self._finder)

    def stop(self) -> None:
        """Stop watching."""
        self._is_stopped = True
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
        self._finder = None
