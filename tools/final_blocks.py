"""Write the blocks at the end of a torch memory snapshot as plain text.

Usage: python tools/final_blocks.py fixtures/recordings/{allocator,zoo}/*.pickle.gz

Beside each snapshot `NAME.blocks` is written, for tests that compare a replay with what torch
itself found: a line `segment ADDRESS BYTES STREAM TYPE` and below it `ADDRESS BYTES STATE` of its
blocks. It unpickles, so it is for our own recordings only.
"""

from __future__ import annotations

import gzip
import pickle
import sys
from pathlib import Path

STATES = {"active_allocated": "a", "active_pending_free": "p", "inactive": "f"}


def main() -> None:
    """Write the blocks of the snapshots that are named."""
    for name in sys.argv[1:]:
        path = Path(name)
        with gzip.open(path) as file:
            snapshot = pickle.load(file)
        lines = []
        for segment in sorted(snapshot["segments"], key=lambda segment: segment["address"]):
            kind = segment["segment_type"]
            stream = segment["stream"]
            lines.append(
                f"segment {segment['address']:x} {segment['total_size']} {stream:x} {kind}"
            )
            for block in segment["blocks"]:
                lines.append(f"{block['address']:x} {block['size']} {STATES[block['state']]}")
        path.with_name(path.name.removesuffix(".pickle.gz") + ".blocks").write_text(
            "\n".join(lines) + "\n"
        )


if __name__ == "__main__":
    main()
