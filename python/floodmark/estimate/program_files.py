"""The program's own files that a process has imported: what an answer of `fit` and `plan` rests on.

Own are all that belong neither to Python nor to an installed package: also those of an editable
install, and those that `PYTHONPATH` names. Sees: `sys.modules`, at the end of the process.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

from floodmark.estimate.import_log import installed_folders

#: Where to write them; `floodmark fit` and `floodmark plan` set it.
_VARIABLE = "FLOODMARK_FILES_TO"


def wanted() -> str:
    """The file to write to, for this process and its children; empty where no answer is kept."""
    return os.environ.pop(_VARIABLE, "")


def write(path: str) -> None:
    """Add the files of this process, a line of JSON. Raises nothing."""
    with contextlib.suppress(Exception):
        line = json.dumps(_files()) + "\n"
        # In one write: other processes of the program add theirs.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)


def _files() -> list[str]:
    found = set()
    for name, module in list(sys.modules.items()):
        # Without code of the program's: a module may define `__getattr__`.
        file = getattr(module, "__dict__", {}).get("__file__")
        if not isinstance(file, str) or name.partition(".")[0] == "floodmark":
            continue
        path = str(Path(file).absolute())
        if not path.startswith(installed_folders()) and Path(path).is_file():
            found.add(path)
    return sorted(found)
