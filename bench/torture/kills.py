"""Part `kills`: SIGKILL at random moments of a recording. What the program allocated is in the
trace.

The program counts every allocation in memory that outlives it, before and after it asks torch.
What it had finished must be in the trace, and nothing that it had not begun.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import threading
import time
from pathlib import Path

from torture.children import Child, Numbers, wait_for
from torture.outcome import Outcome

_THREADS = 3


def work(begun: Numbers, started: Numbers, finished: Numbers, steps: bool) -> None:
    """Record, and allocate until killed."""
    import torch

    import floodmark

    def allocate(thread: int) -> None:
        kept = []
        number = 0
        while True:
            started[thread] = number + 1
            kept.append(torch.empty(512 + number % 512, dtype=torch.uint8))
            number += 1
            finished[thread] = number
            del kept[:-10]
            if steps and thread == 0 and number % 200 == 0:
                floodmark.step()

    floodmark.start("x.flood", devices="cpu")
    begun[0] = 1
    for thread in range(1, _THREADS):
        threading.Thread(target=allocate, args=(thread,), daemon=True).start()
    allocate(0)


def kill_one(folder: Path, chance: random.Random, outcome: Outcome) -> None:
    """One recording that ends by SIGKILL."""
    import floodmark

    begun, started, finished = Numbers(1), Numbers(_THREADS), Numbers(_THREADS)
    steps = chance.random() < 0.3
    # A quarter dies while recording begins.
    at_start = chance.random() < 0.25
    child = Child(lambda: work(begun, started, finished, steps), folder)
    if at_start:
        time.sleep(chance.uniform(0.0, 0.05))
    elif not wait_for(lambda: begun[0] == 1 or child.has_ended()):
        outcome.notes.append(f"one program had not begun after 600 s ({child.cpu_seconds()} s CPU)")
        outcome.count("programs that never began")
    else:
        time.sleep(chance.expovariate(1 / 0.08))
    child.kill()
    status, said = child.wait()
    if status != -9:
        outcome.fault("programs that failed by themselves", f"{status}: {said[-400:]}")
        return
    outcome.count("programs killed")
    done = sum(finished[thread] for thread in range(_THREADS))
    begun_allocations = sum(started[thread] for thread in range(_THREADS))
    outcome.count("allocations", done)
    path = folder / "x.flood"
    if begun[0] == 0:
        outcome.count("programs killed before the recording had begun")
        if not path.exists():
            return
    try:
        trace = floodmark.Trace.open(path)
    except floodmark.FloodmarkError as error:
        if begun[0] == 1 or done:
            outcome.fault("traces that cannot be read", str(error))
        return
    recorded = trace.summary()["allocations"]
    if recorded < done:
        outcome.fault("lost events", f"{done} allocations, {recorded} recorded: {trace.summary()}")
    if recorded > begun_allocations:
        outcome.fault("invented events", f"{begun_allocations} begun, {recorded} recorded")


def main() -> None:
    """`python -m torture.kills FOLDER COUNT SEED`: the outcome as JSON."""
    import torch

    import floodmark  # noqa: F401

    torch.set_num_threads(1)
    folder, count, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(seed)
    outcome = Outcome("kills")
    for _ in range(count):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        kill_one(folder, chance, outcome)
    print(json.dumps(vars(outcome)))


if __name__ == "__main__":
    main()
