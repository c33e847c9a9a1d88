"""Runs a program in this process, as close to plain Python as a running interpreter allows.

Used where `_launch` cannot start a process: inside another tool's process, or with a Python that
ignores the environment. Sees: the command line's plan. Does not see the recorder.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import os
import pkgutil
import runpy
import sys
import types
from pathlib import Path
from types import TracebackType

from floodmark import _core
from floodmark._launch import split_words

_HERE = str(Path(__file__).parent) + os.sep
_OUTSIDE = (_HERE, "<frozen runpy>", runpy.__file__)


def run_in_place(plan: _core.RunPlan) -> None:
    """Run the program of `plan` as `__main__`; what it raises is raised."""
    own_words, args = split_words(plan)
    name = own_words[-1]
    try:
        if plan.script is not None:
            _run_script(name, args)
        else:
            sys.argv = [name, *args]
            _set_first_path(os.getcwd())
            _run_module(name)
    except SystemExit:
        raise
    except BaseException:
        _hide_our_frames()
        raise


def _new_main() -> types.ModuleType:
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    sys.modules["__main__"] = main
    return main


def _set_first_path(folder: str) -> None:
    # `python -P` leaves the program's folder out, and has no entry of ours to replace.
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder


def _run_module(name: str, *, sets_argv: bool = True) -> None:
    _new_main()
    # What `python -m` itself calls. It is private, and the same in 3.10 to 3.14; `run_module` puts
    # another `__main__` in its place when it returns, before threads and exit handlers have ended.
    runpy._run_module_as_main(name, sets_argv)  # type: ignore[attr-defined]


def _run_script(script: str, args: list[str]) -> None:
    sys.argv = [script, *args]
    if script != "-" and pkgutil.get_importer(script) is not None:
        # A folder or a zip file with a `__main__.py`.
        _set_first_path(script)
        _run_module("__main__", sets_argv=False)
        return
    main = _new_main()
    if script == "-":
        _set_first_path("")
        source, file = sys.stdin.buffer.read(), "<stdin>"
        main.__loader__ = importlib.machinery.BuiltinImporter
    else:
        # Joined to the folder and not normalised, as Python does.
        file = os.path.join(os.getcwd(), script)
        _set_first_path(str(Path(script).resolve().parent))
        source = Path(script).read_bytes()
        main.__file__ = file
        main.__dict__["__cached__"] = None
        main.__loader__ = importlib.machinery.SourceFileLoader("__main__", file)
    exec(compile(source, file, "exec", dont_inherit=True), main.__dict__)


def _hide_our_frames() -> None:
    """Let a printed traceback begin at the program's first frame."""
    hook = sys.excepthook

    def shown(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        while traceback is not None and _is_ours(traceback):
            traceback = traceback.tb_next
        hook(kind, error.with_traceback(traceback), traceback)

    sys.excepthook = shown


def _is_ours(traceback: TracebackType) -> bool:
    file = traceback.tb_frame.f_code.co_filename
    # The program's `floodmark` script and the launcher of `python -m` come before our own frames.
    return file.startswith(_OUTSIDE) or Path(file).name == "floodmark"
