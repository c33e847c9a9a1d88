"""Arrows between crates, heavy libraries, and `unsafe`.

Reads `cargo metadata --no-deps`, the table of the rooms in ARCHITECTURE.md, the lints in the
manifests and the sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The drawing of the rooms: a crate may use those on lower floors. Those on the ground floor know
# nothing of each other, nor does anything know `floodmark-phantom`: it is loaded, not linked.
FLOORS = {
    "floodmark-trace": 0,
    "floodmark-slots": 0,
    "floodmark-cuda-model": 0,
    "floodmark-phantom-control": 0,
    "floodmark-phantom-macros": 0,
    "floodmark-profiles": 1,
    "floodmark-phantom": 1,
    "floodmark-allocator": 1,
    "floodmark-snapshot": 1,
    "floodmark-probe": 1,
    "floodmark-analysis": 2,
    "floodmark-fake": 2,
    "floodmark-names": 2,
    "floodmark-export": 3,
    "floodmark-modes": 3,
    "floodmark-testing": 3,
    "floodmark-text": 3,
    "floodmark-files": 4,
    "floodmark": 5,
    "floodmark-python": 6,
}
# A row of the table of the rooms: the crate, what it is, what it may use.
ROOM_ROW = re.compile(r"^\| `crates/(floodmark[\w-]*)` \|[^|]*\|([^|]*)\|", re.MULTILINE)
LINKED_BY_NOBODY = {"floodmark-phantom"}
# True on no platform: a dependency that is packed with the sources, and not linked.
NO_PLATFORM = "cfg(any())"
# Every crate may use these in its tests, also the crates below them; what is shipped may not.
FOR_TESTS = {"floodmark-testing"}

# Which crates may use a library. A name that ends in `*` stands for all that begin like it.
ROOMS = {
    "arrow-*": {"floodmark-trace", "floodmark-export", "floodmark-python"},
    "flate2": {"floodmark-snapshot", "floodmark"},
    "zstd": {"floodmark-snapshot", "floodmark-trace"},
    "pyo3*": {"floodmark-modes", "floodmark-names", "floodmark-python"},
    "parquet": {"floodmark-export"},
    "prost": {"floodmark-export"},
    "resvg": {"floodmark-export"},
    "fontdb": {"floodmark-export"},
    "ttf-parser": {"floodmark-export"},
    "toml": {"floodmark-profiles"},
    "schemars": {
        "floodmark-trace",
        "floodmark-allocator",
        "floodmark-profiles",
        "floodmark-analysis",
        "floodmark",
    },
    "clap*": {"floodmark"},
    "indicatif": {"floodmark"},
    "anyhow": {"floodmark"},
    "tokio": {"floodmark"},
    "axum": {"floodmark"},
    "hyper*": {"floodmark"},
    "ratatui": {"floodmark"},
    "rmcp": {"floodmark"},
    "crossterm": {"floodmark"},
    "signal-hook": {"floodmark"},
    "futures-*": {"floodmark"},
    "mimalloc": {"floodmark-python"},
}

MAY_BE_UNSAFE = {
    "floodmark-probe",
    "floodmark-phantom",
    "floodmark-phantom-control",
    "floodmark-slots",
}
# `#![allow(unsafe_code)]` and its like; `#[expect(…, unsafe_code, …)]` too.
LIFTS_THE_BAN = re.compile(r"#!?\[(?:allow|expect|warn)\([^)]*\bunsafe_code\b")


@dataclass(frozen=True)
class Use:
    """One crate that names another in its manifest."""

    user: str
    used: str
    kind: str
    """`normal`, `build` or `dev`."""


def uses(metadata: dict[str, Any]) -> list[Use]:
    """Every dependency of every crate of the workspace that is linked on some platform."""
    return [
        Use(package["name"], dependency["name"], dependency["kind"] or "normal")
        for package in metadata["packages"]
        for dependency in package["dependencies"]
        if dependency.get("target") != NO_PLATFORM
    ]


def layer_problems(metadata: dict[str, Any]) -> Iterator[str]:
    """Edges between our crates that do not point down. Tests must not bend them either."""
    ours = {package["name"] for package in metadata["packages"]}
    for crate in sorted(ours - FLOORS.keys()):
        yield (
            f"`{crate}` has no floor: give it one in FLOORS of tools/layers/crates.py, "
            "and in the drawing of ARCHITECTURE.md"
        )
    for use in uses(metadata):
        if use.user not in FLOORS or use.used not in FLOORS:
            continue
        if use.used in LINKED_BY_NOBODY:
            yield f"`{use.user}` links `{use.used}`, which is a library of its own"
        elif use.used in FOR_TESTS:
            if use.kind != "dev":
                yield f"`{use.user}` uses `{use.used}`, which only tests may use"
        elif FLOORS[use.used] >= FLOORS[use.user]:
            where = "beside" if FLOORS[use.used] == FLOORS[use.user] else "above"
            yield (
                f"`{use.user}` (floor {FLOORS[use.user]}) uses `{use.used}` "
                f"(floor {FLOORS[use.used]}), which stands {where} it"
            )


def rooms(architecture: str) -> dict[str, set[str]]:
    """The crates of the table of the rooms, each with those in its column "may use"."""
    found = {}
    for crate, column in ROOM_ROW.findall(architecture):
        names = re.findall(r"`([\w-]+)`", column)
        found[crate] = {name if name == "floodmark" else f"floodmark-{name}" for name in names}
    return found


def edge_problems(metadata: dict[str, Any], architecture: str) -> Iterator[str]:
    """Edges between our crates that are not in the table of the rooms, or only there."""
    may_use = rooms(architecture)
    ours = {package["name"] for package in metadata["packages"]}
    for crate in sorted(ours - may_use.keys()):
        yield f"`{crate}` has no row in the table of the rooms of ARCHITECTURE.md"
    for crate in sorted(may_use.keys() - ours):
        yield f"ARCHITECTURE.md has a row for `{crate}`, which is no crate"
    for crate in sorted(ours & may_use.keys()):
        used = {use.used for use in uses(metadata) if use.user == crate}
        used = (used & ours) - FOR_TESTS
        for name in sorted(used - may_use[crate]):
            yield f"`{crate}` uses `{name}`, which its row in ARCHITECTURE.md does not list"
        for name in sorted(may_use[crate] - used):
            yield f"the row of `{crate}` in ARCHITECTURE.md lists `{name}`, which it does not use"


def room_problems(metadata: dict[str, Any]) -> Iterator[str]:
    """Heavy libraries outside their rooms. Those that only tests use are not shipped, and pass."""
    for use in uses(metadata):
        if use.kind == "dev":
            continue
        for pattern, crates in ROOMS.items():
            if _matches(use.used, pattern) and use.user not in crates:
                allowed = ", ".join(f"`{crate}`" for crate in sorted(crates))
                yield f"`{use.user}` uses `{use.used}`, which belongs in {allowed} only"


def _matches(name: str, pattern: str) -> bool:
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return name == pattern


def unsafe_problems(metadata: dict[str, Any], root_manifest: str) -> Iterator[str]:
    """Crates that allow `unsafe` code and must not."""
    workspace_level = lint_level(root_manifest, "workspace.lints.rust", "unsafe_code")
    for package in metadata["packages"]:
        crate = package["name"]
        if crate in MAY_BE_UNSAFE:
            continue
        manifest = Path(package["manifest_path"])
        text = manifest.read_text(encoding="utf-8")
        level = lint_level(text, "lints.rust", "unsafe_code")
        if level is None and lint_level(text, "lints", "workspace") == "true":
            level = workspace_level
        if level not in ("deny", "forbid"):
            yield f"`{crate}` does not deny `unsafe_code`: add `[lints] workspace = true`"
        for source in sorted(manifest.parent.rglob("*.rs")):
            if LIFTS_THE_BAN.search(source.read_text(encoding="utf-8")):
                where = source.relative_to(manifest.parent)
                yield f"`{crate}` lifts the ban on `unsafe_code` in {where}"


def lint_level(manifest: str, table: str, key: str) -> str | None:
    """The value of `key` in `[table]`: a word, or the `level` of an inline table.

    Python 3.10 has no TOML reader; our manifests are plain enough for lines.
    """
    current = ""
    for line in manifest.splitlines():
        line = line.split("#", 1)[0].strip()
        if line.startswith("["):
            current = line.strip("[] ")
        elif current == table:
            name, _, value = (part.strip() for part in line.partition("="))
            # `workspace = true` may also be written `lints.workspace = true`, which we do not do.
            if name == key:
                level = re.search(r'level\s*=\s*"(\w+)"', value)
                return level.group(1) if level else value.strip('"')
    return None


def problems(metadata: dict[str, Any], root_manifest: str, architecture: str) -> list[str]:
    """All that is wrong, one line each."""
    return [
        *layer_problems(metadata),
        *edge_problems(metadata, architecture),
        *room_problems(metadata),
        *unsafe_problems(metadata, root_manifest),
    ]
