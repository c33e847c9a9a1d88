"""`python -m floodmark`: the command line, and the only place where a recorded program is run."""

from __future__ import annotations

import sys

from floodmark import _core


def main() -> int:
    """Do what the command line says; the exit status."""
    answer = _core.main(["floodmark", *sys.argv[1:]], sys.executable or "python3")
    if isinstance(answer, int):
        return answer
    if isinstance(answer, _core.EstimatePlan):
        from floodmark._estimate import estimate

        return estimate(answer)
    from floodmark._run import run

    return run(answer)


if __name__ == "__main__":
    sys.exit(main())
