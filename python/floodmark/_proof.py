"""The proof that we read Python's frames rightly, before we rely on it.

Sees: this interpreter. Talks to: `_core.prove`. Knows nothing of torch.
"""

from __future__ import annotations

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
    name = code.co_qualname if sys.version_info >= (3, 11) else code.co_name
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
