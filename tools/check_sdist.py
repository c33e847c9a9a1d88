"""Keeps the source distribution complete: a wheel must build from it and from nothing else.

Sees: the files of the checkout, and the archive that `maturin sdist` makes. Does not build it:
`make release-check` does. Exit status 0 when nothing is missing, 1 with one line per file.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tracked_files import tracked_files

# All files in these folders are part of a build: sources, the page, fonts, profiles, lists.
FOLDERS = ("crates/", "python/floodmark/", "python/floodmark_compat/")
FILES = {
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "PKG-INFO",
    "README.md",
    "pyproject.toml",
}


def missing_files(packed: Iterable[str], tracked: Iterable[str]) -> list[str]:
    """What a build needs and the archive does not have."""
    needed = FILES | {name for name in tracked if name.startswith(FOLDERS)}
    return sorted(needed - set(packed))


def packed_files(root: Path) -> list[str]:
    """The files of the source distribution of a checkout, without the folder that holds them."""
    maturin = Path(sysconfig.get_path("scripts")) / "maturin"
    with tempfile.TemporaryDirectory() as folder:
        command = [str(maturin), "sdist", "--out", folder]
        subprocess.run(command, cwd=root, check=True, capture_output=True)
        [archive] = Path(folder).glob("floodmark-*.tar.gz")
        with tarfile.open(archive) as packed:
            return [member.name.partition("/")[2] for member in packed if member.isfile()]


def main() -> int:
    root = Path(__file__).resolve().parent.parent
    packed = packed_files(root)
    missing = missing_files(packed, tracked_files(root))
    for name in missing:
        print(f"error: the source distribution lacks `{name}`", file=sys.stderr)
    if missing:
        print(
            "\nhint: maturin packs a crate that a manifest names, with the files that "
            "`cargo package --list` shows",
            file=sys.stderr,
        )
        return 1
    print(f"sdist: {len(packed)} files, nothing that a build needs is missing")
    return 0


if __name__ == "__main__":
    sys.exit(main())
