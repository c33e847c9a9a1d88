"""`floodmark run`: a program and its recorder.

`_launch` runs the program with plain Python wherever it can, `_in_place` elsewhere. Sees: the
command line's plan. Talks to: `_recorder`, `_launch`, `_in_place`.
"""

from __future__ import annotations

import atexit
import os
import sys
from pathlib import Path

from floodmark import _core
from floodmark._in_place import run_in_place
from floodmark._launch import launch
from floodmark._recorder import Account, Recorder, rank_of_process, say


def run(plan: _core.RunPlan, words: list[str]) -> int:
    """Run the program of `plan` under a recorder. Returns only when it could not be begun.

    `words` is the command line behind `floodmark`.
    """
    launch(plan, words)
    if not start(plan):
        return 1
    run_in_place(plan)
    return 0


def start(plan: _core.RunPlan) -> bool:
    """Start the recorder of `plan` in this process; whether that succeeded."""
    program = Program.of(plan)
    if program is None or not program.start():
        return False
    # First in, last out: what the program does at its exit is still recorded.
    atexit.register(_finish, program.recorder, plan.quiet, os.getpid())
    return True


class Program:
    """A program that can be begun, and its recorder."""

    def __init__(
        self,
        plan: _core.RunPlan,
        path: Path,
        told_by: Account | None = None,
    ) -> None:
        self._plan = plan
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
        return cls(plan, path, told_by)

    def start(self) -> bool:
        """Begin to record; whether that could be done."""
        self.recorder.start()
        return not self.recorder.failure

    def run(self) -> None:
        """Run it; what it raises is raised."""
        run_in_place(self._plan)


def _output_path(plan: _core.RunPlan) -> Path | None:
    name = str(plan.module) if plan.script is None else _stem(plan.script)
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


def _stem(script: str) -> str:
    return "stdin" if script == "-" else Path(script).stem


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
