"""`floodmark estimate`: a program on a simulated GPU, and whether it fits.

The program runs as under `floodmark run`, in a fork: the first process waits for its end, whatever
that is, and answers from the traces. What the program prints goes to stderr: its computed values
are meaningless, and stdout has the estimate alone. Sees: the command line's plan. Talks to:
`recording.run`, `supervisor`, the blocks of both engines, `child_processes`, `process_traces`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import sys
import tempfile
from pathlib import Path

from floodmark import _core
from floodmark.changes import apply_for_good
from floodmark.estimate import (
    child_processes,
    import_log,
    process_traces,
    quick_exit,
    supervisor,
)
from floodmark.estimate.engine_choice import block_of
from floodmark.estimate.fake.block import FakeBlock
from floodmark.estimate.operator_cost import OperatorCounter
from floodmark.estimate.simulated_process import Simulated
from floodmark.estimate.step_cost import StepMeasure, measured_in
from floodmark.estimate.world import rank_hub
from floodmark.estimate.world.launcher import launched_as
from floodmark.recording.recorder import say
from floodmark.recording.run import Program, short_path
from floodmark.reports.trace import Estimate

#: How many operator calls are printed with `--ops`.
_MOST_CALLS = 20


def estimate(plan: _core.EstimatePlan) -> int:
    """Run the program of `plan` on a simulated GPU, and answer; the exit status."""
    supervisor.end_with_starter()
    if importlib.util.find_spec("torch") is None:
        print(
            f"error: torch is not installed for `{sys.executable}`\n\n"
            "hint: `pip install torch`, or run floodmark with the Python that has it",
            file=sys.stderr,
        )
        return 1
    _set_ranks(plan.machine)
    program = Program.from_plan(plan.run, is_only_process=plan.machine.world is not None)
    if program is None:
        return 1
    folder = _make_folder(process_traces.output_of(program.path, plan.run))
    seat = None
    if plan.machine.rank is not None and plan.engine != "fake":
        seat = rank_hub.open_seats(plan.machine.rank)
        if seat.is_started:
            return _run_other_rank(plan, program, seat)
    child = supervisor.fork()
    if child is None:
        if seat is not None:
            seat.take()
        return _run(plan, program, folder)
    if seat is not None:
        seat.close()
    try:
        return _answer(plan, program, folder, child)
    finally:
        if folder is not None:
            # What a process that still runs has there stays.
            with contextlib.suppress(OSError):
                folder.rmdir()


def _make_folder(path: Path) -> Path | None:
    """Where child processes write: beside the traces, where they are found at any end."""
    try:
        return Path(tempfile.mkdtemp(prefix=f"{path.name}.processes-", dir=path.parent))
    except OSError:
        # The recorder says what is wrong with the path.
        return None


def _run(plan: _core.EstimatePlan, program: Program, folder: Path | None) -> int:
    """Run the program; in the process that is its own."""
    machine = plan.machine
    try:
        block = block_of(machine, plan.engine, say=say)
    except _core.PhantomError as error:
        print(f"error: Failed to simulate a GPU\n  Caused by: {error}", file=sys.stderr)
        return 1
    gpus = "a simulated GPU" if machine.gpus == 1 else f"{machine.gpus} simulated GPUs"
    memory = ": memory is exact"
    if isinstance(block, FakeBlock):
        memory = ", with fake tensors: memory follows from their shapes"
    say(f"{machine.name} is {gpus}{memory}, computed values are meaningless")
    import_log.begin("fake" if isinstance(block, FakeBlock) else "phantom", machine.to_json())
    recorder = program.start(block if isinstance(block, FakeBlock) else None)
    if recorder is None:
        return 1
    _give_up_stdout()
    apply_for_good(plan.run.changes)
    if isinstance(block, FakeBlock):
        folder = None
    elif folder is not None:
        child_processes.pass_on(
            machine,
            folder,
            steps=plan.steps,
            ops=plan.run.ops,
            quiet=plan.run.quiet,
            changes=plan.run.changes,
        )
    counter = OperatorCounter() if plan.counts_operators else None
    measure = None
    if plan.measures_step and folder is not None and not isinstance(block, FakeBlock):
        measure = StepMeasure(folder, block.simulated.phantom)
    Simulated(
        recorder,
        block,
        folder,
        steps=plan.steps,
        quiet=plan.run.quiet,
        ops=plan.run.ops,
        counter=counter,
        measure=measure,
    ).begin()
    try:
        with block:
            program.run()
    except BaseException as error:
        block.end(error)
        if isinstance(error, SystemExit):
            quick_exit.note(error.code)
        raise
    block.end(None)
    return 0


def _run_other_rank(plan: _core.EstimatePlan, program: Program, seat: rank_hub.Seat) -> int:
    """Run the program as a rank that another one waits for. It is not recorded."""
    supervisor.end_with(os.getppid())
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silent, stream)
    seat.take()
    machine = plan.machine.as_rank(seat.rank)
    _set_ranks(machine)
    try:
        block = block_of(machine, plan.engine)
        apply_for_good(plan.run.changes)
        with block:
            program.run()
    except BaseException as error:
        seat.fail(f"{type(error).__name__}: {error}")
    os._exit(0)


def _set_ranks(machine: _core.PhantomMachine) -> None:
    """What a launcher would set for this rank."""
    if machine.rank is None or machine.world is None:
        return
    launched = launched_as(machine.rank, machine.world, machine.gpus)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        os.environ[name] = launched[name]
    os.environ.setdefault("MASTER_ADDR", launched["MASTER_ADDR"])
    os.environ.setdefault("MASTER_PORT", str(_free_port()))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _give_up_stdout() -> None:
    """Let the program's words go to stderr: stdout is for the answer."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
        os.dup2(2, 1)


def _answer(
    plan: _core.EstimatePlan, program: Program, folder: Path | None, child: supervisor.Child
) -> int:
    """Wait for the program, say what it needs, and leave as it did."""
    status = child.wait()
    traces = process_traces.Traces.open(program.path, folder, child.pid)
    if traces is None:
        # It has said what it could not begin with.
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        return supervisor.end_like(status)
    try:
        found = traces.estimate(supervisor.error_of(status), measured_in(folder))
        _print(found.to_json() + "\n" if plan.json else found.for_stdout())
        if plan.run.ops and not plan.json and (highest := traces.highest()) is not None:
            _print(f"\n{highest.peak().by_op_call(top=_MOST_CALLS)}")
    except Exception as error:
        say(f"`{program.path}` was written, but there is no estimate: {error}")
        return supervisor.end_like(status) or 1
    output = traces.move_to_output(plan.run)
    if not plan.run.quiet:
        name = short_path(output)
        say(f"`{name}`: see what filled it with `floodmark report {name}`")
    return _status_of(found, status)


def _status_of(found: Estimate, status: int) -> int:
    """The program's own, unless the answer says otherwise."""
    if found.fits is None:
        return supervisor.end_like(status) or 1
    if found.fits and found.to_dict()["ended"] == "steps":
        # What the program makes of an end that is not its own is not its failure.
        return 0
    return supervisor.end_like(status)


def _print(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # A reader that has seen enough (`| head`) is no failure; nor is it at the exit.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
