"""Fails on a wheel that lacks a package, or whose extension does not unwind with `libgcc_s`.

    python tools/check_wheel.py dist/release/*.whl

An exception of torch passes through the recorder's hooks. With an unwinder of its own, linked into
the extension, the program would end with a segmentation fault instead of the exception.

Sees: the wheels, through `readelf`. Does not know how they were built.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

LIBRARY = "libgcc_s.so.1"
PACKAGES = ("floodmark", "floodmark_compat")


def extensions(wheel: Path, folder: Path) -> list[Path]:
    """The shared objects of a wheel that Python loads."""
    with zipfile.ZipFile(wheel) as files:
        names = [name for name in files.namelist() if Path(name).match("floodmark/_core*.so")]
        return [Path(files.extract(name, folder)) for name in names]


def needed(extension: Path) -> list[str]:
    """The libraries that the loader loads with it."""
    command = ["readelf", "--dynamic", "--wide", str(extension)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = (line for line in shown.splitlines() if "(NEEDED)" in line)
    return [line.partition("[")[2].rstrip("]") for line in lines]


def missing_packages(wheel: Path) -> list[str]:
    """The packages that a wheel lacks; each has types of its own."""
    with zipfile.ZipFile(wheel) as files:
        names = set(files.namelist())
    return [each for each in PACKAGES if not {f"{each}/__init__.py", f"{each}/py.typed"} <= names]


def problem(wheel: Path) -> str | None:
    """What is wrong with a wheel."""
    if missing := missing_packages(wheel):
        return f"{wheel.name}: lacks `{'`, `'.join(missing)}` or its types"
    with tempfile.TemporaryDirectory() as folder:
        found = extensions(wheel, Path(folder))
        if not found:
            return f"{wheel.name}: has no extension"
        if any(LIBRARY not in needed(extension) for extension in found):
            return f"{wheel.name}: has an unwinder of its own, which an exception of torch crashes"
    return None


def main(wheels: list[str]) -> int:
    """Check the wheels; the exit status."""
    if not wheels:
        print("error: no wheel was given", file=sys.stderr)
        return 1
    problems = [found for wheel in wheels if (found := problem(Path(wheel)))]
    for found in problems:
        print(f"error: {found}", file=sys.stderr)
    if any("unwinder" in found for found in problems):
        print(
            f"\nhint: link `{LIBRARY}`, for example with gcc in a manylinux image", file=sys.stderr
        )
    if problems:
        return 1
    packages = "` and `".join(PACKAGES)
    print(f"wheels: {len(wheels)}, all have `{packages}` and unwind with `{LIBRARY}`")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
