"""Checks that version, tag, change log and manifests of a release agree.

Sees: Cargo.toml, pyproject.toml, CHANGELOG.md, the manifests of the crates. `--tag v1.2.3` asks
for that version; `--notes` prints its part of the change log. Exit status 0 when all agrees, 1
with one line per problem.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

VERSION = re.compile(r'^version = "(\d+\.\d+\.\d+)"$', re.MULTILINE)
OWN_CRATE = re.compile(
    r'^(floodmark[\w-]*) = \{ path = "[^"]+", version = "([^"]+)" \}', re.MULTILINE
)
HEADING = re.compile(r"^## \[?([^\]\s]+)\]?.*$", re.MULTILINE)


def version_of(manifest: str) -> str:
    """The version of the workspace."""
    found = VERSION.search(manifest)
    if found is None:
        raise ValueError("Cargo.toml has no version such as `1.2.3`")
    return found[1]


def notes_of(changelog: str, version: str) -> str:
    """The part of the change log about a version; empty when it has none."""
    headings = list(HEADING.finditer(changelog))
    ends = [heading.start() for heading in headings[1:]] + [len(changelog)]
    for heading, end in zip(headings, ends, strict=True):
        if heading[1] == version:
            return changelog[heading.end() : end].strip()
    return ""


def problems(root: Path, tag: str | None) -> Iterator[str]:
    """What does not agree, one line each."""
    manifest = (root / "Cargo.toml").read_text(encoding="utf-8")
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    version = version_of(manifest)
    if tag is not None and tag != f"v{version}":
        yield f"the tag is `{tag}`, and Cargo.toml has version {version}"
    for crate, named in OWN_CRATE.findall(manifest):
        if named != version:
            yield f"Cargo.toml names `{crate}` {named}, and the version is {version}"
    if tag is not None and not notes_of(changelog, version):
        yield f"CHANGELOG.md has nothing about {version}: move what is under Unreleased to it"
    for path in sorted((root / "crates").glob("*/Cargo.toml")):
        if "publish.workspace = true" not in path.read_text(encoding="utf-8"):
            yield f"`{path.relative_to(root)}` lacks `publish.workspace = true`"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tag", help="the tag of the release, such as v1.2.3")
    parser.add_argument("--notes", action="store_true", help="print the notes of the release")
    args = parser.parse_args()
    root = Path(__file__).resolve().parent.parent
    found = list(problems(root, args.tag))
    for problem in found:
        print(f"error: {problem}", file=sys.stderr)
    if found:
        return 1
    version = version_of((root / "Cargo.toml").read_text(encoding="utf-8"))
    if args.notes:
        print(notes_of((root / "CHANGELOG.md").read_text(encoding="utf-8"), version))
    else:
        print(f"release: version {version}, nothing disagrees")
    return 0


if __name__ == "__main__":
    sys.exit(main())
