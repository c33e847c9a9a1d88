"""What is hard to follow in a program's memory: `python fake_cases.py ENGINE`.

Prints one JSON object: for each case what was allocated at its marks, the peak and what was left
after it, all from where it began. Run once with torch's own allocator on a phantom GPU and once
with fake tensors.
"""

from __future__ import annotations

import json
import sys
import warnings

import fake_storages  # noqa: F401
import fake_training  # noqa: F401
from fake_frame import CASES, LATER_THAN, MIB, batch, measured, mlp

import floodmark

__all__ = ["CASES", "LATER_THAN", "MIB"]


def main(engine: str, only: list[str]) -> None:
    """Run the cases."""
    warnings.simplefilter("ignore")
    with floodmark.estimate(engine=engine):
        # What libraries keep for themselves is there before the first case.
        mlp(64, 1)(batch(8, 64, requires_grad=True)).sum().backward()
        found = {name: measured(run) for name, run in CASES.items() if not only or name in only}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
