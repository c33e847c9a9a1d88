"""Where the trace of a program goes: the rule of `-o` and `--force`.

A path that ends in `.flood` is a file. Any other path is a folder, with one file for each rank. The
rule does not depend on the launcher, on `--world` or on what exists. `--force` replaces a file or a
folder of traces and never removes anything else.

Sees: paths, the launcher's environment. Talks to: `_core`. Does not open the trace.
"""

from __future__ import annotations

import contextlib
import re
import stat
from pathlib import Path

from floodmark import _core
from floodmark.recording.recorder import rank_of_process
from floodmark.recording.window_options import say_text

_SUFFIX = ".flood"
_JOURNAL = ".journal"
#: Names of the files in a journal's folder.
_JOURNAL_FILES = re.compile(r".*\.chunk|ledger|state")
_RANK_FILE = re.compile(r"rank-([0-9]+)\.flood")
#: The first bytes of a trace.
_MAGIC = b"FLOD"
_OTHER_PATH = "choose another path with `-o`"
_OTHER_OR_FORCE = f"{_OTHER_PATH}, or replace it with `--force`"
_WAIT = f"wait until that program ends, or {_OTHER_PATH}"


class _Refused(Exception):
    """Why floodmark does not write to a path, and a hint."""

    def __init__(self, cause: str, hint: str) -> None:
        super().__init__(cause)
        self.hint = hint


def output_path(request: _core.RunRequest, *, is_only_process: bool) -> Path | None:
    """The trace file of this process; None after an error, which goes to stderr.

    With `is_only_process` the other ranks are simulated, so no other process writes there.
    """
    rank, world_size, _ = rank_of_process()
    world = world_size or 1
    has_ranks = rank is not None and world > 1
    if request.output is not None:
        path = Path(request.output)
        is_file = path.suffix == _SUFFIX
    else:
        path = _default_file(request)
        if has_ranks:
            path = path.with_suffix("")
        is_file = not has_ranks
        if is_file and not request.force:
            return _next_free(path)
    try:
        if not is_file:
            return _file_in_folder(path, rank or 0, world if has_ranks else 1, force=request.force)
        if has_ranks and not is_only_process:
            raise _Refused(
                f"{world} processes cannot write into one file",
                f"name a folder: `-o {path.with_suffix('')}`",
            )
        _make_room(path, force=request.force)
        return path
    except (_Refused, OSError) as error:
        cause = str(error) if isinstance(error, _Refused) else error.strerror
        hint = f"\nhint: {error.hint}\n" if isinstance(error, _Refused) else ""
        say_text(f"error: Failed to record into `{path}`\n  Caused by: {cause}\n{hint}")
        return None


def next_default_path(request: _core.RunRequest) -> Path | None:
    """The next free name after another process took the one of `output_path`; None if the user
    chose the name."""
    rank, world_size, _ = rank_of_process()
    if request.output is not None or request.force or (rank is not None and (world_size or 1) > 1):
        return None
    return _next_free(_default_file(request)).absolute()


def _default_file(request: _core.RunRequest) -> Path:
    name = str(request.module) if request.script is None else _stem(request.script)
    return Path(f"floodmark-{name}{_SUFFIX}")


def _file_in_folder(folder: Path, rank: int, world: int, *, force: bool) -> Path:
    """The file of a rank. Other ranks may call this at the same time."""
    if folder.exists() and not folder.is_dir():
        if not force:
            raise _Refused("a file has this name", f"a folder is needed: {_way_out(folder)}")
        _refuse_unless_trace(folder)
        # Another rank may have replaced it meanwhile.
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            folder.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    if force:
        _refuse_unless_ours(folder)
        for entry in list(folder.iterdir()):
            found = _RANK_FILE.fullmatch(entry.name.removesuffix(_JOURNAL))
            # Left by a larger world; each other rank replaces its own file.
            if found is not None and int(found[1]) >= world:
                _refuse_if_live(entry)
                _remove(entry)
    path = folder / f"rank-{rank:04}{_SUFFIX}"
    _make_room(path, force=force)
    return path


def _make_room(path: Path, *, force: bool) -> None:
    """Make sure that `path` may be written or replaced: raise `_Refused`, or remove a folder of
    traces."""
    if path.is_dir() and not path.is_symlink():
        if not force:
            raise _Refused("a folder has this name", f"a file is needed: {_OTHER_OR_FORCE}")
        _remove_folder(path)
    elif path.exists():
        if not force:
            raise _Refused("the file exists", _way_out(path))
        _refuse_unless_trace(path)
    if force:
        # The recorder itself removes a journal, under its lock.
        journal = path.with_name(path.name + _JOURNAL)
        if journal.exists() and not _is_ours(journal):
            raise _Refused(f"`{journal.name}` beside it is not a journal", _OTHER_PATH)


def _stem(script: str) -> str:
    return "stdin" if script == "-" else Path(script).stem


def _next_free(path: Path) -> Path:
    number = 2
    free = path
    while free.exists() or free.with_name(free.name + _JOURNAL).exists():
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
        number += 1
    return free


def _way_out(path: Path) -> str:
    """The hint for a file that exists: `--force` replaces only traces."""
    if _is_trace(path):
        return _OTHER_OR_FORCE
    return f"it is not a trace, and is not replaced: {_OTHER_PATH}"


def _refuse_unless_trace(path: Path) -> None:
    if not _is_trace(path):
        raise _Refused("the file is not a trace, and is not replaced", _OTHER_PATH)


def _refuse_if_live(entry: Path) -> None:
    trace = entry.with_name(entry.name.removesuffix(_JOURNAL))
    if _core.is_being_recorded(trace):
        raise _Refused(f"another process is recording into `{trace.name}`", _WAIT)


def _refuse_unless_ours(folder: Path) -> None:
    for entry in sorted(folder.iterdir()):
        if not _is_ours(entry):
            raise _Refused(f"the folder has `{entry.name}`, which is not a trace", _OTHER_PATH)


def _is_ours(entry: Path) -> bool:
    """Whether it is a trace or its journal, or has been removed meanwhile."""
    try:
        if entry.name.endswith(_SUFFIX):
            return _is_trace(entry)
        kind = entry.lstat().st_mode
        return (
            entry.name.endswith(_SUFFIX + _JOURNAL)
            and stat.S_ISDIR(kind)
            and all(_JOURNAL_FILES.fullmatch(file.name) for file in entry.iterdir())
        )
    except FileNotFoundError:
        return True


def _is_trace(path: Path) -> bool:
    """Whether a file begins like a trace, or is empty."""
    if not stat.S_ISREG(path.lstat().st_mode):
        return False
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) in (_MAGIC, b"")


def _remove(entry: Path) -> None:
    """Remove a trace or a journal, and nothing that does not look like one."""
    with contextlib.suppress(FileNotFoundError):
        if not entry.is_dir():
            entry.unlink()
            return
        for file in list(entry.iterdir()):
            if _JOURNAL_FILES.fullmatch(file.name):
                file.unlink(missing_ok=True)
        entry.rmdir()


def _remove_folder(folder: Path) -> None:
    """Remove a folder of traces; raises `_Refused` and removes nothing if it has other files."""
    _refuse_unless_ours(folder)
    entries = list(folder.iterdir())
    for entry in entries:
        _refuse_if_live(entry)
    for entry in entries:
        _remove(entry)
    folder.rmdir()


def remove_traces(folder: Path) -> bool:
    """Remove a folder of traces; returns False and keeps it if it has other files."""
    try:
        _remove_folder(folder)
    except (_Refused, OSError):
        return False
    return True
