"""The start-up file: what floodmark does in a new Python process, before the program's first line.

`launch` and `child_processes` put this folder in front of `PYTHONPATH`, so Python's `site` module
imports this file as it imports a user's own `sitecustomize`. For `launch` it starts the recorder.
For `child_processes` it waits until torch is imported, and gives the process its simulated GPU
first. Then it removes itself from the import system and imports the user's `sitecustomize`, if
there is one.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys

# Importing `typing` costs every process some milliseconds.
if False:
    from typing import Any

_FOLDER = os.path.dirname(__file__)  # noqa: PTH120
_PACKAGES = os.path.dirname(os.path.dirname(_FOLDER))  # noqa: PTH120


def _import_floodmark() -> None:
    """Import the package of this file, also if `sys.path` does not contain it."""
    spec = importlib.machinery.PathFinder.find_spec("floodmark", [_PACKAGES])
    if spec is None or spec.loader is None:
        raise ImportError(f"there is no package `floodmark` in `{_PACKAGES}`")
    package = importlib.util.module_from_spec(spec)
    sys.modules["floodmark"] = package
    spec.loader.exec_module(package)


def _import_own() -> None:
    """Import the user's own `sitecustomize`; without one, raise the `ImportError` `site`
    expects."""
    sys.path[:] = [entry for entry in sys.path if entry != _FOLDER]
    sys.path_importer_cache.pop(_FOLDER, None)
    sys.modules.pop("sitecustomize", None)
    importlib.import_module("sitecustomize")


class _TorchFinder:
    """Gives the process its simulated GPU, then imports torch as usual."""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch" or cls not in sys.meta_path:
            return None
        for finder in sys.meta_path[sys.meta_path.index(cls) + 1 :]:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _loader(spec.loader)
                return spec
        return None


def _loader(real: Any) -> Any:
    from importlib.abc import Loader

    class TorchLoader(Loader):
        def create_module(self, spec: Any) -> Any:
            return real.create_module(spec)

        def exec_module(self, module: Any) -> None:
            module.__loader__ = module.__spec__.loader = real
            if _TorchFinder in sys.meta_path:
                sys.meta_path.remove(_TorchFinder)
            if "floodmark" not in sys.modules:
                _import_floodmark()
            from floodmark.estimate import child_processes
            from floodmark.recording import import_watch

            with import_watch.executing("torch"):
                # torch must not be in `sys.modules` until it is executed.
                del sys.modules["torch"]
                child_processes.begin()
                sys.modules["torch"] = module
                real.exec_module(module)

    return TorchLoader()


# A sub-interpreter runs this file too, and must not start a recorder.
if "FLOODMARK_STARTUP" in os.environ:
    _import_floodmark()
    from floodmark.recording import run

    _plan = run.begin()
    if _plan is not None and _plan.changes:
        from floodmark import changes

        changes.apply_for_good(_plan.changes)
if "FLOODMARK_ESTIMATE" in os.environ and sys.version_info >= (3, 10):
    sys.meta_path.insert(0, _TorchFinder)
_import_own()
