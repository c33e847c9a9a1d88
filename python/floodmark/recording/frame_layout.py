"""Checks that the recorder reads Python's frames correctly in this interpreter.

Where the check fails, the recorder calls Python's API for frames, which is slower.
`FLOODMARK_STACKS=slow` selects the slow way without a check.

Sees: this interpreter. Talks to: `_core.prove`. Knows nothing of torch.
"""

from __future__ import annotations

import os
import sys
from types import CodeType, FrameType

from floodmark import _core


def _first() -> CodeType:
    def nested_here() -> None: ...

    return nested_here.__code__


def _second() -> CodeType:
    def nested_there() -> None:
        pass

    return nested_there.__code__


def _facts(code: CodeType) -> tuple[int, int, int, int, int]:
    # Each attribute is the same object that the code object points to, so `id` is its address.
    name = getattr(code, "co_qualname", code.co_name)
    return (
        id(code),
        id(code.co_filename),
        id(name),
        id(code.co_linetable),
        code.co_firstlineno,
    )


def prove() -> str | None:
    """Why stacks cannot be read without the GIL in this interpreter; None if they can."""
    frames = [(id(prove.__code__), -1, 0)]
    frame: FrameType | None = sys._getframe().f_back
    while frame is not None:
        frames.append((id(frame.f_code), frame.f_lasti, frame.f_lineno or 0))
        frame = frame.f_back
    strings = _core.strings_to_prove_with()
    ascii_, latin, two, four = (id(text) for text in strings)
    codes = [_facts(_first()), _facts(_second()), _facts(prove.__code__)]
    return _core.prove(sys.version_info.minor, frames, codes, (ascii_, latin, two, four))


def choose_way() -> tuple[bool, str]:
    """Whether stacks can be recorded, and a warning if they are slow or missing."""
    why = "`FLOODMARK_STACKS=slow` is set"
    if os.environ.get("FLOODMARK_STACKS") != "slow":
        found = prove()
        if found is None:
            return True, ""
        why = found
    if _core.use_slow_stacks():
        return True, f"stacks are read slowly, and on CUDA only where the GIL is held: {why}"
    return False, f"Python stacks are not recorded: {why}"
