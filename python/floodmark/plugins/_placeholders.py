"""Placeholder modules for packages that must be importable and are never called.

A library may import packages that an estimate does not need and that cannot be installed
everywhere. During the block each missing one is a placeholder: any name can be imported from it,
and any of its functions works as a decorator. Sees: the import system.
"""

from __future__ import annotations

import dataclasses
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any


class _AnyName:
    """Replaces any function, class or constant of a package that is not installed."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _AnyName(f"{self._name}.{name}")

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self

    def __getitem__(self, key: Any) -> Any:
        return self

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__

    def __repr__(self) -> str:
        return f"<{self._name}, which is not installed>"


class _PlaceholderModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "dataclass":
            # `pydantic.dataclasses`: the same without the checks.
            return dataclasses.dataclass
        return _AnyName(f"{self.__name__}.{name}")


class _Loader(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _PlaceholderModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__path__ = []


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, packages: frozenset[str]) -> None:
        self._packages = packages

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        if fullname.partition(".")[0] not in self._packages:
            return None
        return importlib.machinery.ModuleSpec(fullname, _Loader(), is_package=True)


class Placeholders:
    """Provides placeholders for missing `packages` until `remove`."""

    def __init__(self, packages: Iterable[str]) -> None:
        missing = frozenset(name for name in packages if not _is_installed(name))
        self._finder = _Finder(missing)
        sys.meta_path.append(self._finder)

    def remove(self) -> None:
        """Remove the placeholders."""
        sys.meta_path.remove(self._finder)
        for name, module in list(sys.modules.items()):
            if isinstance(module, _PlaceholderModule):
                del sys.modules[name]


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
