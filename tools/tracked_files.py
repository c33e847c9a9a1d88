"""Lists the files of the checkout.

Sees: git's index and the folder. Does not know what the files are for.
"""

from __future__ import annotations

import subprocess
from pathlib import Path


def tracked_files(root: Path) -> list[str]:
    """The files under version control; new ones count, ignored ones do not."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True).stdout
    names = filter(None, listed.decode("utf-8").split("\0"))
    return [name for name in names if (root / name).is_file()]
