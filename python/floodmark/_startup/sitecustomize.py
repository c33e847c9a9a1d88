"""The start-up file: starts the recorder in a new Python process, before the program's first line.

`_launch` puts this folder in front of `PYTHONPATH`, so Python's `site` module imports this file
as it imports a user's own `sitecustomize`. It removes its traces from the import system, starts the
recorder, and then gives way to the user's `sitecustomize`, if there is one.
"""

import importlib.machinery
import importlib.util
import os
import sys

_FOLDER = os.path.dirname(__file__)  # noqa: PTH120
_PACKAGES = os.path.dirname(os.path.dirname(_FOLDER))  # noqa: PTH120


def _import_floodmark() -> None:
    """Import the package that this file belongs to, also where `sys.path` does not have it."""
    spec = importlib.machinery.PathFinder.find_spec("floodmark", [_PACKAGES])
    if spec is None or spec.loader is None:
        raise ImportError(f"there is no package `floodmark` in `{_PACKAGES}`")
    package = importlib.util.module_from_spec(spec)
    sys.modules["floodmark"] = package
    spec.loader.exec_module(package)


def _give_way() -> None:
    """Import the user's own `sitecustomize`; where there is none, `site` wants an `ImportError`."""
    sys.path[:] = [entry for entry in sys.path if entry != _FOLDER]
    sys.path_importer_cache.pop(_FOLDER, None)
    sys.modules.pop("sitecustomize", None)
    importlib.import_module("sitecustomize")


# A sub-interpreter runs this file too, and has nothing to start.
if "FLOODMARK_STARTUP" in os.environ:
    _import_floodmark()
    from floodmark import _launch

    _launch.begin()
_give_way()
