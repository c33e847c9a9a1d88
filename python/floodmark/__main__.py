"""`python -m floodmark`: the command line, and the only place where a recorded program is run."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from floodmark import _core


def main() -> int:
    """Run the command of the command line; returns the exit status."""
    with _interruptible():
        answer = _core.main(["floodmark", *sys.argv[1:]], sys.executable or "python3")
    if isinstance(answer, int):
        return answer
    if isinstance(answer, str):
        print(f"{answer} ({_torch_found()})")
        return 0
    if isinstance(answer, _core.DoctorRequest):
        from floodmark.doctor.command import doctor

        return doctor(answer)
    _print_hint(answer.run if isinstance(answer, _core.EstimateRequest) else answer)
    if isinstance(answer, _core.EstimateRequest):
        from floodmark.estimate.command import estimate

        return estimate(answer)
    from floodmark import changes
    from floodmark.recording.run import run

    return run(answer, lambda: changes.apply_for_good(answer.changes))


def _torch_found() -> str:
    """The torch that a program of this interpreter would import. Does not import it."""
    from floodmark.doctor.environment import version_of

    version = version_of("torch")
    return "torch is not installed" if version is None else f"torch {version}"


def _print_hint(request: _core.RunRequest) -> None:
    """Print how to pass options of floodmark that follow the program, on rank 0 only."""
    if request.hint is not None and os.environ.get("RANK", "0") == "0":
        from floodmark.recording.window_options import say_text

        say_text(f"hint: {request.hint}\n")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end a command as it ends any program, until the block ends.

    Python's own handler runs at the next line of Python, and a command runs native code. It would
    also raise `KeyboardInterrupt` after Ctrl-C has ended `floodmark view` normally.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if __name__ == "__main__":
    sys.exit(main())
