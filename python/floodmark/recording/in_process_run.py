"""Runs a program in this process, as close to plain Python as a running interpreter allows.

Used where `launch` cannot start a process: inside another tool's process, or with a Python that
ignores the environment. Sees: the request of the command line. Does not see the recorder.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import os
import pkgutil
import runpy
import sys
import types
from itertools import pairwise
from pathlib import Path
from types import TracebackType

from floodmark import _core, own_code
from floodmark.recording.launch import command_of, split_words


def run_in_place(request: _core.RunRequest) -> None:
    """Run the program of `request` as `__main__`; its exceptions pass."""
    sys.orig_argv = command_of(request) or sys.orig_argv
    own_words, args = split_words(request)
    name = own_words[-1]
    try:
        if request.script is not None:
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
    # `python -P` does not add the program's folder: nothing to replace.
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder


def _run_module(name: str, *, sets_argv: bool = True) -> None:
    _new_main()
    # `python -m` calls the same private function (Python 3.10 to 3.14). `run_module` would replace
    # `__main__` when it returns, before threads and exit handlers have ended.
    runpy._run_module_as_main(name, sets_argv)  # type: ignore[attr-defined]


def _run_script(script: str, args: list[str]) -> None:
    sys.argv = [script, *args]
    if script != "-" and pkgutil.get_importer(script) is not None:
        # A folder or a zip file with a `__main__.py`.
        _set_first_path(os.path.join(os.getcwd(), script))
        _run_module("__main__", sets_argv=False)
        return
    main = _new_main()
    if script == "-":
        _set_first_path("")
        source, file = sys.stdin.buffer.read(), "<stdin>"
        main.__loader__ = importlib.machinery.BuiltinImporter
    else:
        # Python joins it to the folder without normalising it.
        file = os.path.join(os.getcwd(), script)
        _set_first_path(str(Path(script).resolve().parent))
        source = _read(file)
        main.__loader__ = importlib.machinery.SourceFileLoader("__main__", file)
    main.__file__ = file
    main.__dict__["__cached__"] = None
    exec(compile(source, file, "exec", dont_inherit=True), main.__dict__)


def _read(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        why = f"[Errno {error.errno}] {error.strerror}"
        print(f"{sys.executable}: can't open file {file!r}: {why}", file=sys.stderr)
        sys.exit(2)


def _hide_our_frames() -> None:
    """Remove floodmark's frames from printed tracebacks."""
    hook = getattr(sys, "excepthook", None)
    if hook is None:
        return

    def shown(
        kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        traceback = _without_ours(traceback)
        hook(kind, error.with_traceback(traceback), traceback)

    sys.excepthook = shown


def _without_ours(traceback: TracebackType | None) -> TracebackType | None:
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    files = [entry.tb_frame.f_code.co_filename for entry in entries]
    first = len(files) - files[::-1].index(__file__) if __file__ in files else 0
    outside = [at for at in range(first) if not files[at].startswith(own_code.FOLDERS)]
    if all(_starts_us(files[at]) for at in outside):
        outside = []
    # Keep the frames of a tool that runs floodmark.
    kept = [entries[at] for at in outside] + entries[first:]
    for entry, following in pairwise(kept):
        entry.tb_next = following
    return kept[0] if kept else None


def _starts_us(file: str) -> bool:
    """Whether `file` is the launcher of `python -m` or the `floodmark` script."""
    return file in ("<frozen runpy>", runpy.__file__) or Path(file).name == "floodmark"
