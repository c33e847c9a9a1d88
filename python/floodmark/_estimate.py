"""`floodmark estimate`: a program on a GPU that is not there, and whether it fits.

The program runs as under `floodmark run`. What it prints goes to stderr: its results are void, and
stdout has the estimate alone. Sees: the command line's plan. Talks to: `_run`, the
blocks of both engines, `_steps`.
"""

from __future__ import annotations

import atexit
import os
import socket
import sys

from floodmark import _core
from floodmark._fake_block import FakeBlock
from floodmark._import_watch import ImportWatch
from floodmark._phantom_block import PhantomBlock
from floodmark._recorder import Recorder, say
from floodmark._run import Program, short_path
from floodmark._steps import Progress, StepWatch


def estimate(plan: _core.EstimatePlan) -> int:
    """Run the program of `plan` on a GPU that is played. Returns only when it cannot be begun."""
    machine = plan.machine
    _set_ranks(machine)
    try:
        block = _block_of(plan)
    except _core.PhantomError as error:
        print(f"error: Failed to play a GPU\n  Caused by: {error}", file=sys.stderr)
        return 1
    is_fake = isinstance(block, FakeBlock)
    program = Program.of(
        plan.run,
        block if isinstance(block, FakeBlock) else None,
        is_only_process=machine.world is not None,
    )
    if program is None:
        return 1
    cards = "a phantom" if machine.gpus == 1 else f"{machine.gpus} phantoms"
    tensors = ", tensors are fake" if is_fake else ""
    say(f"{machine.name} is {cards}{tensors}: memory is counted as on a real one, results are void")
    if not program.start():
        return 1
    answer = _take_stdout()
    progress = Progress(quiet=plan.run.quiet)
    watch = StepWatch(plan.steps, progress.tell)
    # First in, last out: whatever the program does at its exit is still recorded.
    atexit.register(
        _finish, program.recorder, block, watch, progress, answer, plan.json, os.getpid()
    )
    # After the recorder, whose own hooks then come first.
    ImportWatch("torch", watch.attach)
    try:
        with block:
            program.run()
    except BaseException as error:
        block.end(error)
        raise
    block.end(None)
    return 0


def _block_of(plan: _core.EstimatePlan) -> PhantomBlock | FakeBlock:
    """What plays the GPU: the phantom where it can, unless the user says otherwise."""
    if plan.engine != "fake":
        try:
            return PhantomBlock(plan.machine, ())
        except _core.PhantomError as error:
            if plan.engine is not None:
                raise
            say(f"fake tensors instead of a phantom: {str(error).splitlines()[0]}")
    block = FakeBlock(plan.machine, ())
    block.before_torch()
    return block


def _set_ranks(machine: _core.PhantomMachine) -> None:
    """What a launcher would set for this rank."""
    if machine.rank is None or machine.world is None:
        return
    os.environ["RANK"] = str(machine.rank)
    os.environ["WORLD_SIZE"] = str(machine.world)
    os.environ["LOCAL_RANK"] = str(machine.rank % machine.gpus)
    os.environ["LOCAL_WORLD_SIZE"] = str(min(machine.world, machine.gpus))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", str(_free_port()))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _take_stdout() -> int | None:
    """Keep stdout for the answer; the program's words go to stderr. None where there is none."""
    try:
        sys.stdout.flush()
        answer = os.dup(1)
        os.dup2(2, 1)
    except (OSError, ValueError, AttributeError):
        return None
    return answer


def _finish(
    recorder: Recorder,
    block: PhantomBlock | FakeBlock,
    watch: StepWatch,
    progress: Progress,
    answer: int | None,
    as_json: bool,
    pid: int,
) -> None:
    if os.getpid() != pid:
        return
    progress.close()
    if watch.has_ended:
        block.end_by_steps()
    recorder.stop()
    if recorder.path is None:
        return
    try:
        found = recorder.trace.estimate()
        text = found.to_json() + "\n" if as_json else str(found)
        _say_answer(text, answer)
    except Exception as error:
        say(f"`{recorder.path}` was written, but there is no estimate: {error}")
        return
    if not progress.quiet:
        name = short_path(recorder.path)
        say(f"`{name}`: see what filled it with `floodmark report {name}`")


def _say_answer(text: str, answer: int | None) -> None:
    try:
        sys.stdout.flush()
        if answer is None:
            print(text, end="")
            return
        with os.fdopen(answer, "w", encoding="utf-8") as out:
            out.write(text)
    except BrokenPipeError:
        # A reader that has seen enough (`| head`) is no failure.
        return
