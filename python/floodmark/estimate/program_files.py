"""Lists the program's own files that a process has imported: stored answers depend on them.

Own files are all outside Python and installed packages, also those of editable installs and of
`PYTHONPATH`. Sees: `sys.modules`, at the end of the process.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

from floodmark import own_code
from floodmark.estimate.import_log import installed_folders

#: The file to write; `floodmark fit` and `floodmark plan` set it.
_VARIABLE = "FLOODMARK_FILES_TO"


def wanted() -> str:
    """The file to write for this process and its children; empty if no answer is stored."""
    return os.environ.pop(_VARIABLE, "")


def write(path: str) -> None:
    """Append the files of this process as a line of JSON. Never raises."""
    with contextlib.suppress(Exception):
        line = json.dumps(_files()) + "\n"
        # One write: other processes of the program append lines too.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


def _files() -> list[str]:
    found = set()
    for name, module in list(sys.modules.items()):
        # Read without running the program's code: a module may define `__getattr__`.
        file = getattr(module, "__dict__", {}).get("__file__")
        if not isinstance(file, str) or own_code.is_own_module(name):
            continue
        path = str(Path(file).absolute())
        if not path.startswith(installed_folders()) and Path(path).is_file():
            found.add(path)
    return sorted(found)
