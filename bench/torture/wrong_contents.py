"""Part `contents`: files with right checksums and wrong contents, and every command that reads.

Each file is asked about in a process of its own, with 4 GiB of address space and a limit on time.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
from pathlib import Path

from torture import contents, seeds
from torture.commands import Capture, command_lines
from torture.outcome import Outcome

_MOST_MEMORY = 4 << 30
#: Seconds for all commands about one file.
_MOST_WALL = 900.0
_FAULTS = ("panics", "hangs", "crashes")


def run(folder: Path, files: int) -> Outcome:
    """Ask about the files that are made, and about this many recordings with other values."""
    outcome = Outcome("contents", faults=dict.fromkeys(_FAULTS, 0))
    target = folder / "x.flood"
    for what, data in contents.made():
        target.write_bytes(data)
        _ask_all(target, what, 0, outcome)
    places = [seed for seed in seeds.make(folder) if seed.kind == "flood"]
    for number in range(files):
        seed = places[number % len(places)]
        whole = (seed.folder / seed.name).read_bytes()
        target.write_bytes(contents.respoiled(whole, random.Random(number)))
        _ask_all(target, f"recording {number}", number, outcome)
    return outcome


def _ask_all(target: Path, what: str, number: int, outcome: Outcome) -> None:
    outcome.count("files with wrong contents")
    command = [sys.executable, "-m", "torture.wrong_contents", str(target), str(number)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_MOST_WALL)
    except subprocess.TimeoutExpired as error:
        outcome.fault("hangs", f"{what}: {_last_line(error.stderr or b'')}")
        return
    if done.returncode != 0:
        outcome.fault("crashes", f"{what}: {done.returncode}, {_last_line(done.stderr)}")
        return
    for answer in json.loads(done.stdout):
        outcome.count(f"answers with status {answer['status']}")
        if answer["panicked"]:
            outcome.fault("panics", f"{what}, {' '.join(answer['words'])}: {answer['said']}")


def _last_line(said: bytes) -> str:
    lines = said.decode(errors="replace").splitlines()
    return lines[-1][:300] if lines else ""


def main() -> None:
    """Ask every command about one file."""
    target, number = Path(sys.argv[1]), int(sys.argv[2])
    os.chdir(target.parent)
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    capture = Capture()
    answers = []
    for words in command_lines(target.name, target.name, number):
        # Where this process ends or hangs, the last line says over what.
        print(" ".join(words), file=sys.stderr, flush=True)
        answer = capture.run(words)
        panicked = answer.status not in (0, 1) or b"panicked at" in answer.stderr
        said = answer.stderr.decode(errors="replace")[:300]
        answers.append(
            {"words": words, "status": answer.status, "panicked": panicked, "said": said}
        )
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
