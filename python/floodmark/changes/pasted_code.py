"""Where the code of a change is pasted, and what its names are there.

A program has a model and an optimizer in variables, or gives the model to a `Trainer` of
transformers, which makes the optimizer itself: then the code goes before `trainer.train()`, and
what needs the optimizer is a callback. Sees: the frames of the program at the time of the change.
"""

from __future__ import annotations

import inspect
import linecache
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from floodmark import own_code
from floodmark.changes.calls import Calls, calls_of

#: What the file names of patches that run begin with.
GENERATED = "<floodmark "
_INSTALLED = ("/site-packages/", "/dist-packages/")

#: `optimizer = torch.optim.AdamW(…)`, `self.optimizer = …`.
_ASSIGNMENT = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(?::[^=]*)?=[^=]")

_CALLBACK = """
class {name}(transformers.TrainerCallback):
    def on_train_begin(self, args, state, control, optimizer, **kwargs):
        optimizer = getattr(optimizer, "optimizer", optimizer)  # without the wrapper of accelerate
{use}
{trainer}.add_callback({name}())
"""


def callers() -> Iterator[FrameType]:
    """The frames that led here but for our own, the innermost first."""
    return _frames_from(inspect.currentframe())


def model_name(root: Any, frame: FrameType | None) -> str:
    """Python for a model, where its program can use it."""
    trainer = _trainer(_frames_from(frame))
    if trainer is not None:
        return f"{trainer_name(trainer, frame)}.model"
    name = _name_of(root, _frames_from(frame)) or _attribute_with(root, _frames_from(frame))
    return name or "model"


def trainer_name(trainer: Any, frame: FrameType | None) -> str:
    """The name of a trainer in the program."""
    return _name_of(trainer, _frames_from(frame)) or "trainer"


def before_training(frame: FrameType | None) -> str:
    """Where code for a model goes, as a comment."""
    trainer = _trainer(_frames_from(frame))
    if trainer is None:
        return "# after the model is made, before the optimizer is\n"
    return f"# before `{trainer_name(trainer, frame)}.train()`\n"


def before_calls(torch: Any, root: Any, frame: FrameType | None) -> str:
    """Where code for a model goes that may not be trained, as a comment."""
    if calls_of(torch, root) is Calls.INFERENCE and _trainer(_frames_from(frame)) is None:
        return "# after the model is made\n"
    return before_training(frame)


def current_trainer() -> Any:
    """The trainer that runs now, where one does."""
    return _trainer(callers())


def for_optimizer(optimizer: Any, definitions: str, use: str, *, callback: str) -> str:
    """Code that uses an optimizer, which is called `optimizer` in it."""
    trainer = current_trainer()
    if trainer is not None:
        name = trainer_name(trainer, next(callers(), None))
        indented = textwrap.indent(use, " " * 8)
        pasted = _CALLBACK.format(name=callback, use=indented, trainer=name)
        place = f"# before `{name}.train()`\n"
        return place + "import transformers\n" + definitions + pasted
    place = "# after the optimizer is made\n"
    name = _name_of(optimizer, callers()) or _assigned_name() or "optimizer"
    return place + definitions + re.sub(r"\boptimizer\b", name, use)


def names_in_program(kind: type) -> list[str]:
    """The names of a class that the program has imported, where it uses the class now."""
    for frame in filter(_is_of_program, callers()):
        return [name for name, value in frame.f_globals.items() if value is kind]
    return []


def with_import(code: str) -> str:
    """The code, with an import of torch where the program has none of its own.

    Not otherwise: an import that is pasted into a function hides `torch` from the lines above.
    """
    names = vars(sys.modules["__main__"])
    is_needed = re.search(r"\btorch\.", code) and "torch" not in names
    return f"import torch\n{code}" if is_needed else code


def _frames_from(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        if not frame.f_code.co_filename.startswith((*own_code.FOLDERS, GENERATED)):
            yield frame
        frame = frame.f_back


def _trainer(frames: Iterator[FrameType]) -> Any:
    """The `Trainer` of transformers whose method one of these frames is."""
    for frame in frames:
        owner = _locals_of(frame).get("self")
        if any(
            kind.__name__ == "Trainer" and kind.__module__ == "transformers.trainer"
            for kind in type(owner).__mro__
        ):
            return owner
    return None


def _locals_of(frame: FrameType) -> dict[str, Any]:
    """The local variables of a frame, without keeping them alive there.

    Before Python 3.13 a frame keeps the dict that it answers with: a tensor that the program
    deletes would stay as long as the frame runs.
    """
    found = dict(frame.f_locals)
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        frame.f_locals.clear()
    return found


def _is_of_program(frame: FrameType) -> bool:
    return not any(folder in frame.f_code.co_filename for folder in _INSTALLED)


def _name_of(value: object, frames: Iterator[FrameType]) -> str:
    """The variable of the program that holds a value; empty where none does."""
    for frame in filter(_is_of_program, frames):
        for name, held in _locals_of(frame).items():
            if held is value and name.isidentifier() and name not in ("self", "module"):
                return name
    return ""


def _attribute_with(value: object, frames: Iterator[FrameType]) -> str:
    """The attribute of the program's objects that holds a value: `pipe.model`; empty if none."""
    for frame in filter(_is_of_program, frames):
        for name, owner in _locals_of(frame).items():
            attributes = getattr(owner, "__dict__", {}) if name.isidentifier() else {}
            for attribute, held in dict(attributes).items():
                if held is value and name not in ("self", "module") and attribute.isidentifier():
                    return f"{name}.{attribute}"
    return ""


def _assigned_name() -> str:
    """What the line of the program that runs now assigns to; empty where it does not."""
    for frame in filter(_is_of_program, callers()):
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        found = _ASSIGNMENT.match(line)
        return found.group(1) if found else ""
    return ""


def calling_line() -> str:
    """The innermost line of the program, as `train.py:31`; empty where there is none."""
    for frame in filter(_is_of_program, callers()):
        return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
    return ""
