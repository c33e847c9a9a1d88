"""The files that are damaged: recordings, what a killed program leaves, and torch's snapshots."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

_RECORDINGS = Path(__file__).parents[2] / "fixtures" / "recordings"

#: Three steps of a small model, under names that a report has.
_TRAINING = """
import sys
import torch
from torch import nn

device = sys.argv[1]
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).to(device)
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    model(torch.ones(4, 32, device=device)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@dataclass(frozen=True)
class Seed:
    """A file that is whole, and which part of it is damaged."""

    #: `flood`, `journal`, `pickle` or `gz`.
    kind: str
    #: The folder with all files; its trace is `name`.
    folder: Path
    #: What the commands read.
    name: str
    #: What is damaged, relative to the folder.
    targets: tuple[str, ...]
    #: Whether the format has checksums, so that damage must not go unnoticed.
    has_checksum: bool


def make(folder: Path) -> list[Seed]:
    """Record and copy all seeds into a folder."""
    # A quarter of the damaged files each: traces, journals, packed and plain snapshots.
    return [*_recordings(folder) * 2, *[_killed(folder)] * 4, *_snapshots(folder)]


def _run(command: list[str], cwd: Path) -> None:
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _recordings(folder: Path) -> list[Seed]:
    seeds = []
    script = folder / "train.py"
    script.write_text(_TRAINING)
    floodmark = [sys.executable, "-m", "floodmark"]
    for name, words in (
        ("cpu", ["run", "--quiet", "-o", "x.flood", str(script), "cpu"]),
        ("cuda", ["estimate", "--gpu", "h100", "-o", "x.flood", str(script), "cuda"]),
    ):
        place = folder / name
        place.mkdir()
        _run([*floodmark, *words], place)
        seeds.append(Seed("flood", place, "x.flood", ("x.flood",), has_checksum=True))
    return seeds


#: Allocates in an endless loop; prints a line when it has begun.
_ENDLESS = """
import torch, floodmark

floodmark.start("x.flood", devices="cpu")
kept = []
number = 0
while True:
    kept.append(torch.empty(1000 + number % 100, dtype=torch.uint8))
    del kept[:-20]
    number += 1
    if number % 50 == 0:
        floodmark.step()
    if number == 2000:
        print("ready", flush=True)
"""


def _killed(folder: Path) -> Seed:
    place = folder / "killed"
    place.mkdir()
    command = [sys.executable, "-c", _ENDLESS]
    with subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"ready\n"
        program.send_signal(signal.SIGKILL)
    files = sorted(path for path in (place / "x.flood.journal").iterdir() if path.is_file())
    targets = tuple(str(file.relative_to(place)) for file in files)
    return Seed("journal", place, "x.flood", targets, has_checksum=True)


def used_bytes(data: bytes) -> int:
    """The end of a file's non-zero bytes plus a page: damage beyond has no effect."""
    return min(len(data), len(data.rstrip(b"\0")) + 4096)


def _snapshots(folder: Path) -> list[Seed]:
    seeds = []
    for name in ("zoo/lstm", "zoo/neumf", "ring/lstm-ring", "ring/expandable-oom-ring"):
        place = folder / name.replace("/", "-")
        place.mkdir()
        packed = (_RECORDINGS / f"{name}.pickle.gz").read_bytes()
        (place / "x.pickle.gz").write_bytes(packed)
        (place / "x.pickle").write_bytes(gzip.decompress(packed))
        seeds.append(Seed("gz", place, "x.pickle.gz", ("x.pickle.gz",), has_checksum=True))
        seeds.append(Seed("pickle", place, "x.pickle", ("x.pickle",), has_checksum=False))
    return seeds


def copy(seed: Seed, to: Path) -> None:
    """Put a whole seed into an empty folder."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir(parents=True)
    trace = seed.folder / seed.name
    shutil.copy(trace, to / seed.name)
    # The same time, whenever it is copied: what depends on it must not differ.
    os.utime(to / seed.name, (time.time(), 0))
    journal = trace.with_name(seed.name + ".journal")
    if journal.is_dir():
        shutil.copytree(journal, to / journal.name)
