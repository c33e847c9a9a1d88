"""`floodmark estimate`: runs a program on a simulated GPU, and prints whether it fits.

The program runs in a fork, as under `floodmark run`: the first process waits for its end and
answers from the traces. The program's output goes to stderr: its computed values are meaningless,
and stdout has only the estimate. Sees: the request of the command line. Talks to: `recording.run`,
`supervisor`, the sessions of both engines, `child_processes`, `process_traces`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import socket
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from floodmark import _core
from floodmark.changes import apply_for_good
from floodmark.estimate import (
    child_processes,
    import_log,
    process_traces,
    program_files,
    quick_exit,
    supervisor,
)
from floodmark.estimate.engine_choice import session_for
from floodmark.estimate.fake.session import FakeSession
from floodmark.estimate.operator_cost import OperatorCounter
from floodmark.estimate.simulated_process import Simulated
from floodmark.estimate.step_cost import StepMeasure, measured_in
from floodmark.recording.recorder import rank_of_process, say
from floodmark.recording.run import Program, next_question, short_path
from floodmark.recording.window_options import requested_options, say_text
from floodmark.reports.trace import Estimate
from floodmark.world import rank_hub
from floodmark.world.launcher import launched_as

#: The memory of the GPU of a second run: every program fits.
_ENOUGH_MEMORY = 1 << 40

#: The most steps of a second run, which ends once two steps in a row have the same peaks.
_MOST_STEPS_AGAIN = 8

#: Steps of child processes: the first allocates the optimizer's states, the second has them, the
#: third confirms the second.
_STEPS_OF_CHILDREN = 3


def estimate(request: _core.EstimateRequest) -> int:
    """Run the program of `request` on a simulated GPU and print the estimate; returns the
    status."""
    supervisor.end_with_starter()
    if importlib.util.find_spec("torch") is None:
        say_text(
            f"error: torch is not installed for `{sys.executable}`\n\n"
            "hint: `pip install torch`, or run floodmark with the Python that has it\n"
        )
        return 1
    _set_ranks(request.machine)
    program = Program.from_request(request.run, is_only_process=request.machine.world is not None)
    if program is None:
        return 1
    first = _Attempt(request.machine, request.steps, request.until_steady, program)
    child = _fork(request, first)
    if isinstance(child, int):
        return child
    ended = first.wait(child)
    again = _second_attempt(request, first, ended)
    rerun = None
    if again is not None:
        child = _fork(request, again, is_silent=True)
        if isinstance(child, int):
            return child
        rerun = again.wait(child)
    try:
        return _answer(request, first, ended, rerun)
    finally:
        for attempt in filter(None, (first, again)):
            attempt.close()


def _fork(
    request: _core.EstimateRequest, attempt: _Attempt, *, is_silent: bool = False
) -> supervisor.Child | int:
    """Fork to run the program. Returns the child; in the child, the exit status."""
    seat = None
    if request.machine.rank is not None and request.engine != "fake":
        seat = rank_hub.open_seats(request.machine.rank)
        if seat.is_started:
            return _run_other_rank(request, attempt, seat)
    child = supervisor.fork()
    if child is not None:
        if seat is not None:
            seat.close()
        return child
    if is_silent:
        _be_silent()
    if seat is not None:
        seat.make_current()
    return _run(request, attempt)


class _Attempt:
    """One run of the program: its machine, its steps and the folder of its traces."""

    def __init__(
        self,
        machine: _core.PhantomMachine,
        steps: int | None,
        until_steady: bool,
        program: Program,
    ) -> None:
        self.machine = machine
        self.steps = steps
        self.until_steady = until_steady
        self.program = program
        #: Where child processes write.
        self.folder = _make_folder(process_traces.output_of(program.path, program.request))

    @property
    def steps_of_children(self) -> int | None:
        """The fixed number of steps of child processes, which may wait for each other."""
        if self.steps is None or not self.until_steady:
            return self.steps
        return min(self.steps, _STEPS_OF_CHILDREN)

    def wait(self, child: supervisor.Child) -> _Ended:
        """Wait for the program, and read its traces and estimate."""
        status = child.wait()
        traces = process_traces.Traces.open(self.program.path, self.folder, child.pid)
        error = supervisor.error_of(status)
        if traces is None:
            return _Ended(status, None, None)
        try:
            return _Ended(status, traces, traces.estimate(error, measured_in(self.folder)))
        except Exception as failure:
            say(f"`{self.program.path}` was written, but there is no estimate: {failure}")
            return _Ended(status, traces, None)

    def close(self) -> None:
        """Remove the folder, unless a running process still has files in it."""
        if self.folder is not None:
            with contextlib.suppress(OSError):
                self.folder.rmdir()


class _Ended(NamedTuple):
    """How a run ended: its status, its traces if it began, and its estimate if there is one."""

    status: int
    traces: process_traces.Traces | None
    found: Estimate | None


def _second_attempt(
    request: _core.EstimateRequest, first: _Attempt, ended: _Ended
) -> _Attempt | None:
    """A second run with enough memory, if the first ran out and can be repeated."""
    is_one_of_many = request.machine.world is None and (rank_of_process()[1] or 1) > 1
    reads_stdin = request.run.script is not None and os.fspath(request.run.script) == "-"
    if ended.found is None or ended.found.fits is not False or not request.reruns:
        return None
    # Other ranks have ended or wait for this one; standard input cannot be read twice.
    if is_one_of_many or reads_stdin or first.folder is None:
        return None
    if not request.run.quiet:
        say("out of memory: running it again with enough, to see what it needs (`--no-rerun`)")
    path = first.program.path
    program = Program(request.run, path.with_name(f"{first.folder.name}-rerun{path.suffix}"))
    machine = _with_enough_memory(request.machine)
    if request.steps is not None:
        return _Attempt(machine, request.steps, request.until_steady, program)
    return _Attempt(machine, _MOST_STEPS_AGAIN, True, program)


def _with_enough_memory(machine: _core.PhantomMachine) -> _core.PhantomMachine:
    """The same machine with GPUs on which everything fits."""
    described = json.loads(machine.to_json())
    described["profile"]["memory"] = _ENOUGH_MEMORY
    return _core.PhantomMachine.from_json(json.dumps(described))


def _be_silent() -> None:
    """Discard the output: the first run has printed it already."""
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def _make_folder(path: Path) -> Path | None:
    """The folder for child processes, next to the output, where a user finds it after a crash."""
    try:
        return Path(tempfile.mkdtemp(prefix=f"{path.name}.processes-", dir=path.parent))
    except OSError:
        # The recorder reports the error of this path.
        return None


def _run(request: _core.EstimateRequest, attempt: _Attempt) -> int:
    """Run the program in this process, the fork."""
    machine, program, folder = attempt.machine, attempt.program, attempt.folder
    ops = requested_options(request.run)["ops"]
    try:
        session = session_for(machine, request.engine, say=say)
    except _core.FloodmarkError as error:
        say_text(f"error: Failed to simulate a GPU\n  Caused by: {error}\n")
        return 1
    gpus = machine.name if machine.gpus == 1 else f"{machine.gpus} × {machine.name}"
    memory = ": memory is exact"
    if isinstance(session, FakeSession):
        memory = ", with fake tensors: memory follows from their shapes"
    say(f"Simulating {gpus}{memory}, computed values are meaningless")
    import_log.begin("fake" if isinstance(session, FakeSession) else "phantom", machine.to_json())
    files_to = program_files.wanted()
    recorder = program.start(session if isinstance(session, FakeSession) else None)
    if recorder is None:
        return 1
    _redirect_stdout()
    apply_for_good(request.run.changes)
    if isinstance(session, FakeSession):
        folder = None
    elif folder is not None:
        child_processes.pass_on(
            machine,
            folder,
            steps=attempt.steps_of_children,
            ops=ops,
            quiet=request.run.quiet,
            changes=request.run.changes,
            files_to=files_to,
        )
    counter = OperatorCounter() if request.counts_operators else None
    measure = None
    if request.measures_step and folder is not None and not isinstance(session, FakeSession):
        measure = StepMeasure(folder, session.simulated.phantom)
    Simulated(
        recorder,
        session,
        folder,
        steps=attempt.steps,
        until_steady=attempt.until_steady,
        quiet=request.run.quiet,
        ops=ops,
        files_to=files_to,
        counter=counter,
        measure=measure,
        # Only `fit` and `plan` ask for the files, to know when a try counts no more.
        is_try=bool(files_to),
    ).begin()
    try:
        with session:
            attempt.program.run()
    except BaseException as error:
        session.end(error)
        if isinstance(error, SystemExit):
            quick_exit.note(error.code)
        raise
    session.end(None)
    return 0


def _run_other_rank(request: _core.EstimateRequest, attempt: _Attempt, seat: rank_hub.Seat) -> int:
    """Run the program as another rank, without a recording, for the objects it sends."""
    supervisor.end_with(os.getppid())
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silent, stream)
    seat.make_current()
    machine = attempt.machine.as_rank(seat.rank)
    _set_ranks(machine)
    try:
        session = session_for(machine, request.engine)
        apply_for_good(request.run.changes)
        with session:
            attempt.program.run()
    except BaseException as error:
        seat.fail(f"{type(error).__name__}: {error}")
    os._exit(0)


def _set_ranks(machine: _core.PhantomMachine) -> None:
    """Set the environment variables that a launcher would set for this rank."""
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


def _redirect_stdout() -> None:
    """Redirect the program's stdout to stderr: stdout is for the estimate."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
        os.dup2(2, 1)


def _answer(
    request: _core.EstimateRequest, first: _Attempt, ended: _Ended, rerun: _Ended | None
) -> int:
    """Print the estimate; returns the exit status."""
    status, traces, found = ended
    if traces is None:
        # The run has printed its own error.
        if first.folder is not None:
            shutil.rmtree(first.folder, ignore_errors=True)
        return supervisor.end_like(status)
    if found is None:
        return supervisor.end_like(status) or 1
    if rerun is not None:
        error = supervisor.error_of(status)
        found = traces.estimate(error, measured_in(first.folder), rerun=rerun.found)
        if rerun.traces is not None:
            rerun.traces.remove()
    _print(found.printed_for(request))
    output = traces.move_to_output(request.run)
    if not request.run.quiet:
        name = short_path(output)
        say(
            next_question(
                name, ran_out=any(device["failed"] for device in found.to_dict()["devices"])
            )
        )
    return _status_of(found, status)


def _status_of(found: Estimate, status: int) -> int:
    """The exit status: the program's, except after an early end by steps or without an answer."""
    if found.fits is None:
        return supervisor.end_like(status) or 1
    if found.fits and found.to_dict()["ended"] == "steps":
        # `--steps` ended the program: its exit status is not a failure.
        return 0
    return supervisor.end_like(status)


def _print(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # A reader that closed the pipe (`| head`) is no failure, also not when Python flushes at
        # exit.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
