"""An estimate in a process of its own, as `floodmark fit`, `plan` and `mcp` request one.

    python -m floodmark.estimate.request_process REQUEST PROGRAM [ARGUMENT]...

`REQUEST` is a file with the parsed request as JSON. It names the program too; the arguments repeat
it as Python decodes a command line.

Sees: its command line. Talks to: `command`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from floodmark import _core
from floodmark.estimate.command import estimate


def main() -> int:
    """Answer the request; returns the exit status."""
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    return estimate(_core.EstimateRequest.from_json(text))


if __name__ == "__main__":
    sys.exit(main())
