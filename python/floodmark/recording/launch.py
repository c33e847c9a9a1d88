"""Runs a program with plain Python, and starts the recorder in that process before its first line.

`floodmark run script.py` becomes `python script.py`: the process replaces itself. So `__main__`,
`sys.argv`, `sys.path`, tracebacks, `-m`, zip files, stdin and the exit status are those of plain
Python. The start-up file (`startup/sitecustomize.py`) is found through `PYTHONPATH` and calls
`run.begin`, which restores the environment and starts the recorder. Where the start-up file would
not be found, or where another tool runs floodmark inside its own process, `launch` returns and the
caller runs the program in this process.

Sees: the command line. Talks to: `_core`. Does not read the program.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys

from floodmark import _core

#: Variables for the start-up file: floodmark's arguments, and the user's `PYTHONPATH`.
VARIABLE = "FLOODMARK_STARTUP"
_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
#: The folder of the start-up file.
STARTUP_FOLDER = os.path.join(os.path.dirname(_HERE), "startup")  # noqa: PTH120
_OWN_MODULES = ("floodmark", "floodmark.__main__", "floodmark.estimate.request_process")


def launch(request: _core.RunRequest) -> None:
    """Replace this process with the program of `request`; returns if that is not possible."""
    program = command_of(request)
    # `-E` and `-I` ignore `PYTHONPATH`, `-S` ignores `sitecustomize`.
    if program is None or sys.flags.ignore_environment or sys.flags.no_site or not sys.executable:
        return
    own_words, _ = split_words(request)
    order = json.dumps({"words": own_words, "pythonpath": os.environ.get("PYTHONPATH")})
    paths = [STARTUP_FOLDER, os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        VARIABLE: order,
    }
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os.execve(sys.executable, program, environment)


def take_order() -> list[str] | None:
    """floodmark's arguments in a process that `launch` started. Restores the environment."""
    text = os.environ.pop(VARIABLE, None)
    if text is None:
        return None
    order = json.loads(text)
    if order["pythonpath"] is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = order["pythonpath"]
    words: list[str] = order["words"]
    return words


def command_of(request: _core.RunRequest) -> list[str] | None:
    """The command line of the program without floodmark; None if another tool runs floodmark."""
    options = _interpreter_options()
    if options is None:
        return None
    own_words, args = split_words(request)
    return [sys.orig_argv[0], *options, *_target(request, own_words[-1]), *args]


def _target(request: _core.RunRequest, name: str) -> list[str]:
    if request.script is None:
        return ["-m", name]
    # `python -x.py` would be an option; `-` is standard input.
    return [f"./{name}" if name.startswith("-") and name != "-" else name]


def split_words(request: _core.RunRequest) -> tuple[list[str], list[str]]:
    """Split the command line into the part up to the program's name and the program's arguments.

    The strings are those that Python decoded, in any locale; the request has other ones.
    """
    words = sys.argv[1:]
    at = len(words) - len(request.args)
    return words[:at], words[at:]


def _interpreter_options() -> list[str] | None:
    """Python's options on the command line; None if another tool runs floodmark."""
    found = _split(sys.orig_argv)
    if found is None:
        return None
    options, name, is_module, rest = found
    main_file = getattr(sys.modules["__main__"], "__file__", None)
    is_ours = name in _OWN_MODULES if is_module else _is_same_file(name, main_file)
    return options if is_ours and rest == sys.argv[1:] else None


def _split(words: list[str]) -> tuple[list[str], str, bool, list[str]] | None:
    """Split `python OPTIONS NAME REST`, or `python OPTIONS -m NAME REST`."""
    at = 1
    while at < len(words):
        word = words[at]
        if not word.startswith("-") or word == "-":
            return words[1:at], word, False, words[at + 1 :]
        if word.startswith("--"):
            at += 2 if word == "--check-hash-based-pycs" else 1
            continue
        for place, letter in enumerate(word[1:], start=1):
            behind = word[place + 1 :]
            if letter == "c":
                return None
            if letter == "m":
                kept = words[1:at] + ([word[:place]] if place > 1 else [])
                named = [behind] if behind else words[at + 1 : at + 2]
                rest = words[at + 1 if behind else at + 2 :]
                return (kept, named[0], True, rest) if named else None
            if letter in "WX":
                at += 0 if behind else 1
                break
        at += 1
    return None


def _is_same_file(name: str, other: str | None) -> bool:
    try:
        return other is not None and os.path.samefile(name, other)  # noqa: PTH121
    except OSError:
        return False
