"""A change of a program that is applied while it runs: what every one of them has in common.

A change patches torch or the modules of the program when it is attached, says what it was applied
to, and undoes itself. It never edits a file. Sees: torch. Talks to: who reports it. Knows nothing
of traces.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from floodmark.changes.calls import Calls
from floodmark.changes.pasted_code import GENERATED, with_import
from floodmark.recording.undoable import Undoable
from floodmark.recording.window_options import say

if TYPE_CHECKING:
    from floodmark.reports.answer_types import AppliedChange

#: What a change does to the results: nothing, another order of sums, another precision; or it
#: trains other parameters, or by another rule.
Numerics = Literal["same", "rounding", "changed", "training"]


class Change(Undoable):
    """The base of every change. Patch in `attach`; `exit` undoes it."""

    #: What it is called in `--with`.
    name: ClassVar[str]
    #: The calls that it is prepared for, and that it surrounds.
    calls: ClassVar[Calls] = Calls.TRAINING
    #: Whether the program may become slower by it.
    slows: bool = False
    numerics: Numerics = "same"

    def __init__(self, argument: str = "") -> None:
        super().__init__()
        self.argument = argument
        #: What it was applied to: `24 × GPT2Block`; empty as long as it was not.
        self.target = ""
        #: Plain torch code that does the same.
        self.patch = ""
        #: Why it was not applied, or was given up.
        self.reason = ""
        #: How many repeated blocks there are, where it counts them.
        self.blocks: int | None = None
        #: The bytes that it copied to the host, and back.
        self.host_bytes = 0

    @property
    def text(self) -> str:
        """As it is written behind `--with`."""
        return f"{self.name}={self.argument}" if self.argument else self.name

    def prepare_process(self) -> None:
        """Before torch is imported: variables of the environment."""

    def attach(self, torch: Any) -> None:
        """torch is imported: patch it."""

    def prepare(self, root: Any, frame: FrameType | None) -> None:
        """Before the first outermost call of a module that is one of `calls`."""

    def around(self, root: Any) -> AbstractContextManager[Any] | None:  # noqa: ARG002
        """What surrounds every outermost call that is one of `calls`."""
        return None

    def guarded(self, call: Callable[..., Any], *args: Any) -> Any:
        """Call a function of this change; where it fails, the change is given up."""
        try:
            return call(*args)
        except Exception as error:
            self.give_up(f"it failed: {error!r}")
            return None

    def exit(self) -> None:
        """Undo it, the last patch first."""
        self.undo_all()

    def give_up(self, reason: str) -> None:
        """Undo it, because it does not suit the program, and say so once."""
        if not self.reason:
            say(f"`{self.text}` is given up: {reason}")
        self.reason = reason
        self.target = ""
        self.end()

    def end(self) -> None:
        """Undo it while the program goes on."""
        self.exit()

    def report(self) -> AppliedChange:
        """What was done."""
        is_applied = bool(self.target)
        return {
            "change": self.text,
            "target": self.target,
            "reason": "" if is_applied else self.reason or self.nothing_found(),
            "slows": self.slows,
            "numerics": self.numerics,
            "patch": with_import(self.patch) if is_applied else "",
            "blocks": self.blocks,
            "host_bytes": self.host_bytes,
        }

    def nothing_found(self) -> str:
        """Why nothing was changed, where nothing that it suits was seen."""
        return "no module was called that is trained"


def defined_by(code: str, name: str) -> Any:
    """What the code of a patch defines under a name: what is printed is what runs."""
    return definitions(code, name)[name]


def definitions(code: str, title: str) -> dict[str, Any]:
    """All that the code of a patch defines; a traceback calls it by the title.

    The code uses the program's `torch`: an `import` that is pasted into a function would hide it
    from the lines above.
    """
    import torch

    names: dict[str, Any] = {"torch": torch}
    exec(compile(code, f"{GENERATED}{title}>", "exec"), names)
    return names


class PicklableFunction:
    """A function that the code of a patch defines, which a program may save with its model."""

    def __init__(self, code: str, name: str) -> None:
        self._made_of = code, name
        self._function = defined_by(code, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return PicklableFunction, self._made_of


def is_installed(library: str) -> bool:
    """Whether a library can be imported; it is not imported here."""
    from importlib.util import find_spec

    with contextlib.suppress(ImportError, ValueError):
        return library in sys.modules or find_spec(library) is not None
    return False
