"""The proof that we read Python's frames rightly, before we rely on it.

Where it fails, Python is asked for its frames instead, which is slower. `FLOODMARK_STACKS=slow`
asks for that way from the start.

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
    # The attributes are the very objects that the code object points to.
    name = getattr(code, "co_qualname", code.co_name)
    return (
        id(code),
        id(code.co_filename),
        id(name),
        id(code.co_linetable),
        code.co_firstlineno,
    )


def prove() -> str | None:
    """Why stacks cannot be read without the GIL in this interpreter; None when they can."""
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
    """Whether stacks can be recorded, and what is to be said of it; nothing when all is well."""
    why = "`FLOODMARK_STACKS=slow` is set"
    if os.environ.get("FLOODMARK_STACKS") != "slow":
        found = prove()
        if found is None:
            return True, ""
        why = found
    if _core.use_slow_stacks():
        return True, f"stacks are read slowly, and on CUDA only where the GIL is held: {why}"
    return False, f"Python stacks are not recorded: {why}"
