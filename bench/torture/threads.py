"""Part `threads`: 64 threads allocate for a minute. The trace is equal to arithmetic."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

from torture.outcome import Outcome

_KEPT = 10


def main() -> None:
    """`python -m torture.threads FOLDER THREADS SECONDS`: the outcome as JSON."""
    import torch

    import floodmark

    torch.set_num_threads(1)
    folder, count, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    outcome = Outcome("threads", faults={"lost events": 0, "differences from arithmetic": 0})
    path = folder / "threads.flood"
    made = [0] * count
    kept: list[list[torch.Tensor]] = [[] for _ in range(count)]
    end = time.monotonic() + seconds
    floodmark.start(path, devices="cpu")

    def allocate(thread: int) -> None:
        while time.monotonic() < end:
            for number in range(100):
                torch.empty(1000 + number, dtype=torch.uint8)
            made[thread] += 100
            # So that the file stays small enough to be read on any machine.
            time.sleep(0.04)
        # A size for each thread and number that none of the others has.
        first = 100_000 + thread * _KEPT
        kept[thread] = [torch.empty(first + at, dtype=torch.uint8) for at in range(_KEPT)]
        made[thread] += _KEPT

    threads = [threading.Thread(target=allocate, args=(thread,)) for thread in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    floodmark.stop()
    trace = floodmark.Trace.open(path)
    summary = trace.summary()
    outcome.count("threads", count)
    outcome.count("allocations", sum(made))
    outcome.count("events recorded", summary["events"])
    if summary["losses"]:
        outcome.fault("lost events", str(summary["losses"]))
    if summary["allocations"] != sum(made):
        detail = f"{sum(made)} allocations, {summary['allocations']} recorded"
        outcome.fault("differences from arithmetic", detail)
    live = sorted(row["bytes"] for row in trace.end("cpu").by_tensor(top=None))
    expected = [100_000 + number for number in range(count * _KEPT)]
    if live != expected:
        outcome.fault("differences from arithmetic", f"live at the end: {live[:5]}…, {len(live)}")
    print(json.dumps(vars(outcome)))


if __name__ == "__main__":
    main()
