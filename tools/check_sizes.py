"""Keeps files short enough to read.

Sees: the files under version control, and how many lines they have. Knows nothing of what is in
them. Exit status 0 when all are short enough (with a warning for those that grow), 1 when one is
not.
"""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tracked_files import tracked_files

SUFFIXES = {".rs", ".py", ".ts"}
WARN_LINES = 500
MOST_LINES = 800

# By name, as a whole path or as a pattern of `fnmatch`: what is not written or read line by line.
EXEMPT = (
    "*.gen.ts",
    "python/floodmark/reports/answer_types.py",
    "*/tests/it/rules.rs",
)

# Folders that are to stay small in all: a prefix, which lines count, and how many there may be.
FOLDERS = {("crates/floodmark-python/", ".rs"): 1400}


@dataclass
class Verdict:
    """Files that are too long, and files that soon will be."""

    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def judge(lines_of: Mapping[str, int]) -> Verdict:
    """Judges files by their lines."""
    verdict = Verdict()
    for path, lines in sorted(lines_of.items()):
        if Path(path).suffix not in SUFFIXES or is_exempt(path):
            continue
        if lines >= MOST_LINES:
            verdict.errors.append(f"{path} has {lines} lines; fewer than {MOST_LINES} are allowed")
        elif lines >= WARN_LINES:
            verdict.warnings.append(f"{path} has {lines} lines; is it one thing?")
    for (folder, suffix), most in FOLDERS.items():
        total = sum(
            lines
            for path, lines in lines_of.items()
            if path.startswith(folder) and path.endswith(suffix)
        )
        if total > most:
            verdict.errors.append(
                f"{folder} has {total} lines of {suffix} in all; {most} are allowed"
            )
    return verdict


def is_exempt(path: str) -> bool:
    """Whether the file is generated or data, not read line by line."""
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in EXEMPT)


def tracked_lines(root: Path) -> dict[str, int]:
    """How many lines each file under version control has; new ones count, ignored ones do not."""
    names = [name for name in tracked_files(root) if Path(name).suffix in SUFFIXES]
    return {name: len((root / name).read_bytes().splitlines()) for name in names}


def main() -> int:
    lines_of = tracked_lines(Path(__file__).resolve().parent.parent)
    verdict = judge(lines_of)
    for warning in verdict.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for error in verdict.errors:
        print(f"error: {error}", file=sys.stderr)
    if not verdict.errors:
        print(f"sizes: {len(lines_of)} files, all below {MOST_LINES} lines")
    return 1 if verdict.errors else 0


if __name__ == "__main__":
    sys.exit(main())
