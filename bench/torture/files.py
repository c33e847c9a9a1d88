"""Part `files`: damaged files and every command that reads.

Two workers damage files and ask about them (`reader.py`). This process watches them: one that
computes or sleeps for too long over one command hangs, one that ends has crashed. A sample goes
through the real program, `view` included.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from torture import seeds as seed_files
from torture.outcome import Outcome
from torture.reader import Reader

#: Seconds of CPU time, and of time at all, after which a command on a small file hangs.
_MOST_CPU, _MOST_WALL = 60.0, 600.0
_TICKS = os.sysconf("SC_CLK_TCK")
_FAULTS = ("panics", "hangs", "crashes", "silent errors")


def run(folder: Path, files: int, workers: int) -> Outcome:
    """Damage this many files."""
    outcome = Outcome("files", faults=dict.fromkeys(_FAULTS, 0))
    place = folder / "seeds"
    place.mkdir()
    seeds = seed_files.make(place)
    listed = [
        {
            "kind": seed.kind,
            "folder": str(seed.folder),
            "name": seed.name,
            "targets": seed.targets,
            "sum": seed.has_checksum,
        }
        for seed in seeds
    ]
    (folder / "seeds.json").write_text(json.dumps(listed))
    numbers = iter(range(files))
    pool = [Worker(folder, index) for index in range(workers)]
    with selectors.DefaultSelector() as selector:
        for worker in pool:
            worker.start(selector)
            worker.give(next(numbers, None))
        while any(worker.number is not None for worker in pool):
            for key, _ in selector.select(timeout=1.0):
                worker = key.data
                if worker.take(outcome, selector):
                    worker.give(next(numbers, None))
            for worker in pool:
                if worker.hangs(outcome, selector):
                    worker.give(next(numbers, None))
    for worker in pool:
        worker.end(selector_closed=True)
    _sample(folder, seeds, outcome, max(1, files // 100))
    return outcome


class Worker:
    """A process that asks, and what it is busy with."""

    def __init__(self, folder: Path, index: int) -> None:
        self._folder = folder / f"worker-{index}"
        self._seeds = folder / "seeds.json"
        self._process: subprocess.Popen[bytes]
        self.number: int | None = None
        self._since = (0.0, 0.0, "")

    def start(self, selector: selectors.BaseSelector) -> None:
        command = [sys.executable, "-m", "torture.reader", str(self._folder), str(self._seeds)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self._process.stdout is not None
        selector.register(self._process.stdout, selectors.EVENT_READ, self)

    def give(self, number: int | None) -> None:
        """Return the next number."""
        self.number = number
        self._since = (self._cpu(), time.monotonic(), self._now())
        if number is not None:
            assert self._process.stdin is not None
            self._process.stdin.write(f"{number}\n".encode())
            self._process.stdin.flush()

    def take(self, outcome: Outcome, selector: selectors.BaseSelector) -> bool:
        """Read the verdicts of the number; `False` when there is nothing."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            if self.number is None:
                return False
            status = self._process.wait()
            assert self._process.stderr is not None
            said = self._process.stderr.read().decode(errors="replace")[-600:]
            outcome.fault("crashes", f"{self._now()} ended with {status}: {said}")
            self._again(selector)
            return True
        answer = json.loads(line)
        outcome.count("damaged files")
        outcome.count(f"  of them {answer['kind']}")
        for verdict, count in answer["verdicts"].items():
            outcome.count(_WORDS[verdict], count)
        for bad in answer["bad"]:
            kind = "panics" if bad["verdict"] == "failed" else "silent errors"
            outcome.fault(kind, f"{bad['number']} {' '.join(bad['words'])}: {bad['said'][:300]}")
        return True

    def hangs(self, outcome: Outcome, selector: selectors.BaseSelector) -> bool:
        """End a command that takes too long."""
        if self.number is None:
            return False
        now, cpu, wall = self._now(), self._cpu(), time.monotonic()
        if now != self._since[2]:
            self._since = (cpu, wall, now)
            return False
        used, waited = cpu - self._since[0], wall - self._since[1]
        if used < _MOST_CPU and waited < _MOST_WALL:
            return False
        outcome.fault("hangs", f"{now} took {used:.0f} s of CPU time in {waited:.0f} s")
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._again(selector)
        return True

    def _again(self, selector: selectors.BaseSelector) -> None:
        selector.unregister(self._process.stdout)
        self.start(selector)

    def end(self, *, selector_closed: bool) -> None:
        assert selector_closed
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _now(self) -> str:
        try:
            return (self._folder / "now").read_text()
        except OSError:
            return ""

    def _cpu(self) -> float:
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / _TICKS


_WORDS = {
    "same": "answers equal to those about the whole file",
    "refused": "answers that are an error message",
    "stated": "answers that say what is missing",
    "silent": "answers that differ without a word",
    "silent_plain": "answers about plain pickles that differ without a word (no checksum)",
    "failed": "answers that are a panic",
}


def _sample(folder: Path, seeds: list[seed_files.Seed], outcome: Outcome, samples: int) -> None:
    """Ask the real program about some files: commands in turn, and the viewer."""
    reader = Reader(folder / "sample", seeds)
    program = [sys.executable, "-m", "floodmark"]
    turns = (["info"], ["report"], ["report", "--json"], ["leaks"], ["advise"], ["top", "--once"])
    for number in range(samples):
        seed = reader.damage(number * 97)
        words = list(turns[number % len(turns)])
        done = subprocess.run(
            [*program, *words, f"x/{seed.name}"], capture_output=True, timeout=_MOST_WALL
        )
        outcome.count("files read by the real program")
        if done.returncode not in (0, 1) or b"panicked at" in done.stderr:
            outcome.fault("panics", f"real program, {number * 97} {words}: {done.stderr[:300]!r}")
        if number % 4 == 0:
            _view([*program, "view", "--no-open", f"x/{seed.name}"], number * 97, outcome)


def _view(command: list[str], number: int, outcome: Outcome) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as viewer:
        assert viewer.stdout is not None
        address = viewer.stdout.readline().decode().strip()
        if address:
            outcome.count("files shown by the viewer")
            for question in ("api/traces", "api/report?by=line"):
                try:
                    opener.open(address + question, timeout=_MOST_WALL).read()
                except urllib.error.HTTPError as error:
                    if error.code == 500:
                        outcome.fault("panics", f"viewer, {number}: {question}")
            viewer.send_signal(signal.SIGINT)
        said = viewer.communicate(timeout=_MOST_WALL)[1]
        if viewer.returncode not in (0, 1) or b"panicked at" in said:
            outcome.fault("panics", f"viewer, {number}: {said[:300]!r}")
