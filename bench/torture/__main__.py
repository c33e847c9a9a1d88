"""`make torture`: run the parts, print the counts, write the result down."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import machine

from torture.outcome import Outcome

PARTS = ("files", "contents", "kills", "threads", "starts", "places")


def _ask(part: str, folder: Path, *words: object) -> subprocess.Popen[str]:
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", f"torture.{part}", str(folder), *map(str, words)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _outcome(part: str, processes: list[subprocess.Popen[str]]) -> Outcome:
    """The sum of what processes of one part have found."""
    whole = Outcome(part)
    for process in processes:
        answer = process.communicate()[0]
        if process.returncode != 0 or not answer.strip():
            whole.fault("parts that ended early", f"status {process.returncode}")
            continue
        found = json.loads(answer.splitlines()[-1])
        for what, count in found["counts"].items():
            whole.count(what, count)
        for what, count in found["faults"].items():
            whole.faults[what] = whole.faults.get(what, 0) + count
        whole.details += found["details"]
        whole.notes += found["notes"]
    return whole


def _files(folder: Path, scale: float) -> Outcome:
    from torture import files

    home = Path.cwd()
    try:
        return files.run(folder, max(10, int(10_000 * scale)), workers=os.cpu_count() or 2)
    finally:
        # A part of it works inside its folder, which is removed.
        os.chdir(home)


def _contents(folder: Path, scale: float) -> Outcome:
    from torture import wrong_contents

    return wrong_contents.run(folder, max(5, int(500 * scale)))


def _kills(folder: Path, scale: float) -> Outcome:
    each = max(1, int(500 * scale))
    processes = [_ask("kills", folder / str(number), each, number) for number in range(2)]
    whole = _outcome("kills", processes)
    for what in ("lost events", "invented events", "traces that cannot be read"):
        whole.faults.setdefault(what, 0)
    return whole


def _threads(folder: Path, scale: float) -> Outcome:
    return _outcome("threads", [_ask("threads", folder, 64, 60 * min(1.0, scale))])


def _starts(folder: Path, scale: float) -> Outcome:
    return _outcome("starts", [_ask("starts", folder, max(1, int(500 * scale)))])


def _places(folder: Path, scale: float) -> Outcome:
    return _outcome("places", [_ask("places", folder)])


_RUN: dict[str, Callable[[Path, float], Outcome]] = {
    "files": _files,
    "contents": _contents,
    "kills": _kills,
    "threads": _threads,
    "starts": _starts,
    "places": _places,
}


def _write(outcomes: list[Outcome], scale: float, results: Path) -> None:
    about = machine.describe()
    parts = [
        machine.sentence(about),
        f"`make torture`, {scale:.0%} of the full counts. Nothing is tried twice.",
    ]
    for outcome in outcomes:
        rows = [[what.strip(), f"{count:,}"] for what, count in outcome.counts.items()]
        rows += [[f"**{what}**", f"**{count:,}**"] for what, count in outcome.faults.items()]
        parts += [f"## {outcome.part}, {outcome.seconds:.0f} s"]
        parts += [machine.table(["what", "count"], rows)]
        parts += ["\n".join(f"- {line}" for line in (*outcome.details, *outcome.notes))]
    result = {"machine": about, "scale": scale, "parts": [vars(outcome) for outcome in outcomes]}
    machine.finish("torture", "Torture", [part for part in parts if part], [], result, results)


def main() -> int:
    """Run the parts; 1 when something that must be 0 is not."""
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--part", action="append", choices=PARTS, help="one part; may be repeated")
    parser.add_argument("--scale", type=float, default=1.0, help="a share of the counts, for a try")
    parser.add_argument("--results", type=Path, help="the folder for `torture.md`")
    arguments = parser.parse_args()
    outcomes = []
    for part in arguments.part or PARTS:
        folder = Path(tempfile.mkdtemp(prefix=f"torture-{part}-"))
        folder.chmod(0o755)
        began = time.monotonic()
        outcome = _RUN[part](folder, arguments.scale)
        outcome.seconds = time.monotonic() - began
        outcomes.append(outcome)
        print("\n".join(outcome.lines()), flush=True)
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.results:
        _write(outcomes, arguments.scale, arguments.results)
    return 0 if all(outcome.is_good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
