"""Runs a script under an engine, and prints one line of JSON: `one.py ENGINE RANK/WORLD SCRIPT …`.

`-` stands for no world. What the script prints goes to stderr.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import sys
import time
from pathlib import Path

import floodmark

GPU = "h200"


def pretend_launched(rank: int, world: int) -> None:
    """What `torchrun` tells a process."""
    os.environ |= {
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_RANK": str(rank % 8),
        "LOCAL_WORLD_SIZE": str(min(world, 8)),
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": "29500",
    }


def main() -> int:
    engine, ranks, script = sys.argv[1:4]
    rank, world = (None, None) if ranks == "-" else map(int, ranks.split("/"))
    if world is not None:
        pretend_launched(rank or 0, world)
    sys.argv = sys.argv[3:]
    sys.path.insert(0, str(Path(script).resolve().parent))
    start = time.monotonic()
    error = ""
    with contextlib.redirect_stdout(sys.stderr):
        est = floodmark.estimate(engine=engine, gpu=GPU, world=world, rank=rank or 0)
        try:
            with est:
                runpy.run_path(script, run_name="__main__")
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
            sys.excepthook(type(failure), failure, failure.__traceback__)
    found = est.estimate.to_dict()
    found |= {"seconds": time.monotonic() - start, "failure": error}
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
