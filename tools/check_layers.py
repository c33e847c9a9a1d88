"""Checks the arrows between crates, modules and Python packages, and which libraries they use.

`layers/` has the rules, one file each. Exit status 0 when all is in order, 1 with one line per
problem.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from layers.crates import problems
from layers.modules import graph_text, module_problems, read_crate
from layers.python_cycles import KNOWN_LATE, cycle_problems
from layers.python_rooms import COMPAT, PYTHON_ROOMS, python_problems

ROOT = Path(__file__).resolve().parent.parent


def read_metadata() -> dict[str, Any] | None:
    """The metadata of the workspace from cargo, or `None` after an error."""
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1", "--offline"]
    answer = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    if answer.returncode != 0:
        print(f"error: `{' '.join(command)}` failed\n{answer.stderr}", file=sys.stderr)
        return None
    metadata: dict[str, Any] = json.loads(answer.stdout)
    return metadata


def crate_folders(metadata: dict[str, Any]) -> dict[str, Path]:
    """The folder of each crate."""
    return {
        package["name"]: Path(package["manifest_path"]).parent for package in metadata["packages"]
    }


def python_sources(package: Path, root: Path) -> dict[str, str]:
    """The modules of a Python package, by their paths inside a folder."""
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in package.rglob("*.py*")
        if path.suffix in (".py", ".pyi")
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Check the arrows between crates and modules.")
    parser.add_argument("--graph", metavar="CRATE", help="print the arrows inside a crate instead")
    options = parser.parse_args(arguments)
    metadata = read_metadata()
    if metadata is None:
        return 1
    folders = crate_folders(metadata)
    if options.graph is not None:
        if options.graph not in folders:
            print(f"error: `{options.graph}` is no crate of the workspace", file=sys.stderr)
            return 1
        print(graph_text(read_crate(folders[options.graph])))
        return 0
    manifest = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    architecture = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    python = ROOT / "python"
    packages = [python / "floodmark", python / COMPAT]
    sources = {
        path: text for each in packages for path, text in python_sources(each, python).items()
    }
    found = [
        *problems(metadata, manifest, architecture),
        *(problem for name, folder in folders.items() for problem in module_problems(name, folder)),
        *python_problems(sources, architecture),
        *(
            problem
            for each in packages
            for problem in cycle_problems(
                python_sources(each, each),
                each.name,
                {edge: why for edge, why in KNOWN_LATE.items() if edge[0].startswith(each.name)},
            )
        ),
    ]
    for problem in found:
        print(f"error: {problem}", file=sys.stderr)
    if not found:
        print(
            f"layers: {len(folders)} crates and {len(PYTHON_ROOMS)} rooms of Python, "
            f"every arrow points down and is in ARCHITECTURE.md or in a list of modules, "
            f"no import cycle"
        )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
