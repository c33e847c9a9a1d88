"""`floodmark run`: a program, recorded, as if nobody were there.

The program gets its own `__main__`, `sys.argv` and `sys.path`; its exit status, its output and its
exceptions are what they would have been. Sees: the command line's plan. Talks to: `_recorder`.
"""

from __future__ import annotations

import atexit
import os
import runpy
import sys
import types
from pathlib import Path
from types import CodeType, TracebackType

from floodmark import _core
from floodmark._recorder import Account, Recorder, rank_of_process, say

_HERE = str(Path(__file__).parent) + os.sep
_OUTSIDE = (_HERE, "<frozen runpy>", runpy.__file__)


def run(plan: _core.RunPlan) -> int:
    """Run the program of `plan` under a recorder. Returns only when it could not be begun."""
    program = Program.of(plan)
    if program is None or not program.start():
        return 1
    # First in, last out: whatever the program does at its exit is still recorded.
    atexit.register(_finish, program.recorder, plan.quiet, os.getpid())
    program.run()
    return 0


class Program:
    """A program that can be begun, and its recorder."""

    def __init__(
        self,
        plan: _core.RunPlan,
        path: Path,
        code: CodeType | None,
        told_by: Account | None = None,
    ) -> None:
        self._plan = plan
        self._code = code
        self.recorder = Recorder(
            path,
            devices=plan.devices,
            stacks=plan.stacks,
            ops=plan.ops,
            max_memory=plan.max_memory,
            follow_fork=plan.follow_fork,
            told_by=told_by,
        )

    @classmethod
    def of(cls, plan: _core.RunPlan, told_by: Account | None = None) -> Program | None:
        """The program of a plan; what is wrong with it has been said where there is none."""
        path = _output_path(plan)
        if path is None:
            return None
        code = None if plan.script is None else _compile(os.fspath(plan.script))
        if plan.script is not None and code is None:
            return None
        return cls(plan, path, code, told_by)

    def start(self) -> bool:
        """Begin to record; whether that could be done."""
        self.recorder.start()
        return not self.recorder.failure

    def run(self) -> None:
        """Run it; what it raises is raised."""
        plan = self._plan
        try:
            if plan.script is not None and self._code is not None:
                _run_script(os.fspath(plan.script), self._code, plan.args)
            else:
                sys.argv = [str(plan.module), *map(os.fsdecode, plan.args)]
                sys.path[0] = os.getcwd()
                runpy.run_module(str(plan.module), run_name="__main__", alter_sys=True)
        except SystemExit:
            raise
        except BaseException:
            _hide_our_frames()
            raise


def _output_path(plan: _core.RunPlan) -> Path | None:
    name = Path(plan.script).stem if plan.script is not None else str(plan.module)
    rank, world_size, _ = rank_of_process()
    has_ranks = rank is not None and (world_size or 1) > 1
    suffix = "" if has_ranks else ".flood"
    path = Path(plan.output) if plan.output is not None else Path(f"floodmark-{name}{suffix}")
    if has_ranks:
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            print(f"error: Failed to create the folder `{path}`: {error.strerror}", file=sys.stderr)
            return None
        path = path / f"rank-{rank:04}.flood"
    elif plan.output is None and not plan.force:
        path = _next_free(path)
    if path.exists() and not plan.force:
        print(
            f"error: Failed to record into `{path}`\n  Caused by: the file exists\n\n"
            "hint: choose another name with `-o`, or replace it with `--force`",
            file=sys.stderr,
        )
        return None
    if plan.force:
        _remove_journal(path)
    return path


def _next_free(path: Path) -> Path:
    number = 2
    free = path
    while free.exists():
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
        number += 1
    return free


def _remove_journal(path: Path) -> None:
    """What an earlier, killed recording of the same name left behind."""
    folder = path.with_name(path.name + ".journal")
    if folder.is_dir():
        for segment in folder.glob("*.seg"):
            segment.unlink(missing_ok=True)
        folder.rmdir()


def _file_of(script: str) -> str:
    """The script as Python itself calls it: joined to the folder, not tidied."""
    return os.path.join(os.getcwd(), script)


def _compile(script: str) -> CodeType | None:
    try:
        source = Path(script).read_bytes()
    except OSError as error:
        print(f"error: Failed to read `{script}`: {error.strerror}", file=sys.stderr)
        return None
    try:
        return compile(source, _file_of(script), "exec")
    except (SyntaxError, ValueError):
        # Python's own words for it.
        sys.excepthook(*sys.exc_info())
        return None


def _run_script(script: str, code: CodeType, args: list[str]) -> None:
    main = types.ModuleType("__main__")
    main.__file__ = _file_of(script)
    main.__builtins__ = __builtins__  # type: ignore[attr-defined]
    main.__dict__["__cached__"] = None
    sys.modules["__main__"] = main
    sys.argv = [script, *map(os.fsdecode, args)]
    sys.path[0] = str(Path(script).resolve().parent)
    exec(code, main.__dict__)


def _hide_our_frames() -> None:
    """Let the traceback begin where the program does, whoever prints it."""
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


def _finish(recorder: Recorder, quiet: bool, pid: int) -> None:
    if os.getpid() != pid:
        return
    recorder.stop()
    if quiet or recorder.path is None:
        return
    try:
        summary = str(recorder.trace)
        name = os.path.relpath(recorder.path)
        for line in summary.splitlines():
            say(line.strip().removeprefix("floodmark: "))
        say(f"`{name}`: see what filled it with `floodmark report {name}`")
    except Exception as error:
        say(f"`{recorder.path}` was written, but could not be read back: {error}")
