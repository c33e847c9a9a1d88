"""Counts the instructions that recording adds to an event, with callgrind.

    python bench/hot_path.py

Instructions do not depend on what else the machine does, so two versions can be compared where
times cannot. A program trains a small model for a few steps and for more of them, in valgrind, with
and without a recording: the difference between the two lengths is what a step takes, without the
start and the end. Two figures follow for each event: those of the program's own thread, which is
the hot path, and those of all threads, the writer included.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import machine

MODES = ("untraced", "traced", "traced, no stacks")
FEW, MANY = 3, 9
PROGRAM = """
import gc
import sys
import torch
from torch import nn

mode, steps, trace = sys.argv[1], int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(1)
# A collection in one of two runs would count as a part of a step.
gc.disable()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


model = nn.Sequential(*[Block() for _ in range(4)])
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)


def train():
    for _ in range(steps):
        loss = model(torch.ones(2, 8)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if mode == "untraced":
    train()
else:
    import floodmark

    with floodmark.trace(trace, devices="cpu", stacks=mode == "traced") as recorder:
        train()
    print("events", recorder.trace.summary()["events"])
"""


def run(mode: str, steps: int, folder: Path) -> dict[str, int]:
    """Instructions of the main thread and of all, and the events of the recording."""
    folder.mkdir()
    (folder / "program.py").write_text(PROGRAM)
    environment = os.environ | {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    command = [
        *("valgrind", "--tool=callgrind", "--separate-threads=yes", "--quiet"),
        f"--callgrind-out-file={folder / 'counts'}",
        *(sys.executable, "program.py", mode, str(steps), "program.flood"),
    ]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"error: valgrind failed with status {done.returncode}\n{done.stderr}")
    threads = {
        path.name: int(total)
        for path in folder.glob("counts*")
        for total in re.findall(r"^(?:summary|totals): (\d+)", path.read_text(), re.MULTILINE)[-1:]
    }
    events = re.search(r"events (\d+)", done.stdout)
    return {
        "main": threads["counts-01"],
        "all": sum(threads.values()),
        "events": int(events[1]) if events else 0,
    }


def measure() -> dict[str, Any]:
    """What a step takes in each mode, and what an event adds."""
    found: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory(prefix="floodmark-bench-") as folder,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        runs = {
            (mode, steps): pool.submit(run, mode, steps, Path(folder) / f"{number}-{steps}")
            for number, mode in enumerate(MODES)
            for steps in (MANY, FEW)
        }
        for mode in MODES:
            few, many = (runs[mode, steps].result() for steps in (FEW, MANY))
            found[mode] = {key: (many[key] - few[key]) / (MANY - FEW) for key in few}
            print(f"{mode}: {found[mode]}", flush=True)
    base = found["untraced"]
    for mode in MODES[1:]:
        step = found[mode]
        step["main_of_event"] = (step["main"] - base["main"]) / step["events"]
        step["all_of_event"] = (step["all"] - base["all"]) / step["events"]
    return found


def main() -> int:
    args = machine.arguments(__doc__).parse_args()
    if shutil.which("valgrind") is None:
        print("hot path: skipped, valgrind is missing")
        return 0
    about, found = machine.describe(), measure()
    base = found["untraced"]["main"]
    rows = [
        [
            mode,
            f"{found[mode]['main'] / 1e6:.2f}",
            f"{100 * (found[mode]['main'] / base - 1):+.1f} %",
            f"{found[mode]['events']:.0f}",
            f"{found[mode].get('main_of_event', 0):,.0f}",
            f"{found[mode].get('all_of_event', 0):,.0f}",
        ]
        for mode in MODES
    ]
    head = ["mode", "step, million instructions", "over untraced", "events of a step"]
    head += ["of an event, its thread", "of an event, all threads"]
    parts = [
        "A step of a small model in callgrind, which counts instructions: other work on the "
        "machine does not change them. Instructions of an event are what the traced step has "
        "more than the untraced one, by events; first those of the program's thread, then those "
        "of all threads, with the writer's.",
        machine.sentence(about),
        machine.table(head, rows),
    ]
    result = {"machine": about, "modes": found}
    return machine.finish("hot-path", "Instructions of an event", parts, [], result, args.results)


if __name__ == "__main__":
    sys.exit(main())
