"""Runs the commands that the documentation shows, and compares what they print.

    python tools/check_commands.py [--write] [PAGE …]

A block that is fenced as `console` has commands, each after `$ `, and what they print on stdout.
The commands of a page run in order in one temporary folder, with links to `examples` and
`fixtures`. What a command prints about a file of `fixtures` must be equal to the page. What depends
on the machine (a program that is run) must begin with the same line, numbers aside. `--write` puts
what is printed into the pages.

Sees: Markdown files, and the `floodmark` of the Python that runs this. Exit status 0 when all are
equal, 1 with what differs.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tracked_files import tracked_files

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d[\d.,]*")
# What a launcher, a test or a terminal may have set.
OF_OTHERS = re.compile(
    r"RANK|WORLD_SIZE|LOCAL_RANK|COLUMNS|LINES|\w*COLOR\w*|FLOODMARK_\w+|PYTORCH_\w+"
)
# Only ends a command that hangs.
PATIENCE_SECONDS = 600


@dataclass(frozen=True)
class Shown:
    """A command of a page, and what the page shows as its output."""

    command: str
    output: str

    def is_about_a_fixture(self) -> bool:
        """Whether what is printed does not depend on the machine."""
        return "fixtures/" in self.command and "examples/" not in self.command

    def agrees_with(self, printed: str) -> bool:
        """Whether the shown output matches the printed one."""
        if not self.output:
            return True
        if self.is_about_a_fixture():
            return self.output == printed
        return first_line(self.output) == first_line(printed)


def first_line(output: str) -> str:
    """The first line, with numbers and white space normalised."""
    line = output.partition("\n")[0]
    return " ".join(NUMBER.sub("0", line).split())


def shown_in(page: str) -> Iterator[Shown]:
    """The commands of a page, in order."""
    for block in BLOCK.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield Shown(command, output)


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of a page in its folder."""
    environment = {key: value for key, value in os.environ.items() if not OF_OTHERS.fullmatch(key)}
    programs = str(Path(sys.executable).parent)
    environment["PATH"] = programs + os.pathsep + environment.get("PATH", "")
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        stdin=subprocess.DEVNULL,
    )


def run_page(page: str) -> tuple[str, list[str]]:
    """The page with the current output, and the problems of the one it has."""
    printed: list[Shown] = []
    problems = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for linked in ("examples", "fixtures"):
            (folder / linked).symlink_to(ROOT / linked)
        for shown in shown_in(page):
            done = run(shown.command, folder)
            if done.returncode != 0:
                problems.append(
                    f"`{shown.command}` ended with status {done.returncode}:\n{done.stderr}"
                )
            elif not shown.agrees_with(done.stdout):
                problems.append(
                    f"`{shown.command}` printed\n{done.stdout}where the page has\n{shown.output}"
                )
            printed.append(Shown(shown.command, done.stdout if shown.output else ""))
    return with_output(page, printed), problems


def with_output(page: str, printed: list[Shown]) -> str:
    """The page with other outputs."""
    remaining = iter(printed)

    def block(match: re.Match[str]) -> str:
        count = len(re.findall(r"^\$ ", match.group(1), flags=re.MULTILINE))
        parts = (next(remaining) for _ in range(count))
        body = "".join(f"$ {shown.command}\n{shown.output}" for shown in parts)
        return f"```console\n{body}```"

    return BLOCK.sub(block, page)


def pages() -> list[Path]:
    """The pages of the documentation that show commands."""
    names = [name for name in tracked_files(ROOT) if name.endswith(".md")]
    return [ROOT / name for name in names if BLOCK.search((ROOT / name).read_text("utf-8"))]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="put what is printed into the pages")
    parser.add_argument("page", nargs="*", type=Path)
    args = parser.parse_args()
    found = []
    checked = args.page or pages()
    for path in checked:
        text = path.read_text("utf-8")
        current, problems = run_page(text)
        if args.write:
            path.write_text(current, "utf-8")
        found += [f"{path}: {problem}" for problem in problems]
    for problem in found:
        print(f"error: {problem}", file=sys.stderr)
    if not found:
        print(f"commands: {len(checked)} pages, every command prints what its page shows")
    return 1 if found and not args.write else 0


if __name__ == "__main__":
    sys.exit(main())
