"""How a program on a simulated GPU ended, from what it raised.

Sees: an exception. Knows nothing of who ran the program.
"""

from __future__ import annotations

from floodmark.recording.steps import EnoughSteps


def outcome_of(error: BaseException) -> tuple[str, str]:
    """How a program that raised ended, and what it died of."""
    if isinstance(error, EnoughSteps):
        return "steps", ""
    if isinstance(error, SystemExit):
        if error.code in (None, 0):
            return "done", ""
        return "failed", f"exit status {error.code}"
    lines = str(error).splitlines() or [""]
    # `torch.multiprocessing` begins with an empty line and ends with the error of the child.
    line = lines[0] or next(filter(None, reversed(lines)), "")
    text = f"{type(error).__name__}: {line}".removesuffix(": ")
    cause: BaseException | None = error
    while cause is not None:
        if type(cause).__name__ == "OutOfMemoryError":
            return "out_of_memory", text
        cause = cause.__cause__ or cause.__context__
    return "failed", text
