"""Gives child processes of a program the simulated GPU, and a trace each.

`pass_on` sets what child processes inherit: a variable, and the folder of the start-up file
(`startup/sitecustomize.py`) in `PYTHONPATH`. A child that imports torch calls `begin` first. A fork
of a recorded process gets its trace when it initialises CUDA.

Sees: the environment, and the folder in which children write their traces. Talks to:
`simulated_process`. Does not see how a program starts its processes.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import TypedDict

from floodmark import _core
from floodmark.changes import apply_for_good
from floodmark.estimate.device import current_gpu
from floodmark.estimate.phantom.session import PhantomSession
from floodmark.estimate.simulated_process import Simulated, trace_path
from floodmark.recording.launch import STARTUP_FOLDER
from floodmark.recording.recorder import Recorder, rank_of_process, say

#: The variable with `Inherited` as JSON.
VARIABLE = "FLOODMARK_ESTIMATE"


class Inherited(TypedDict):
    """What a child process gets from its parent."""

    machine: str
    folder: str
    steps: int | None
    ops: bool
    quiet: bool
    changes: list[str]
    files_to: str


def pass_on(
    machine: _core.PhantomMachine,
    folder: Path,
    *,
    steps: int | None,
    ops: bool,
    quiet: bool,
    changes: list[str],
    files_to: str,
) -> None:
    """Make every Python process that starts from now on simulate this machine."""
    inherited: Inherited = {
        "machine": machine.to_json(),
        "folder": str(folder),
        "steps": steps,
        "ops": ops,
        "quiet": quiet,
        "changes": changes,
        "files_to": files_to,
    }
    os.environ[VARIABLE] = json.dumps(inherited)
    paths = [STARTUP_FOLDER, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


def begin() -> None:
    """Give this process its GPU and its trace. Called before torch is imported; raises nothing."""
    inherited: Inherited | None = json.loads(os.environ.get(VARIABLE, "null"))
    if (
        inherited is None
        or not Path(inherited["folder"]).is_dir()
        or current_gpu.current() is not None
    ):
        # The estimate has ended, or this process simulates a GPU already.
        return
    folder = Path(inherited["folder"])
    try:
        _begin(folder, inherited)
    except Exception as error:
        _refuse(folder, str(error).splitlines()[0] if str(error) else repr(error))


def _begin(folder: Path, inherited: Inherited) -> None:
    machine = _core.PhantomMachine.from_json(inherited["machine"])
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    session = PhantomSession(machine, ())
    if visible is not None:
        # The phantom removes the variable, which is about the host's GPUs. Here the program has set
        # it.
        os.environ["CUDA_VISIBLE_DEVICES"] = visible
    steps, ops = inherited["steps"], inherited["ops"]
    recorder = Recorder(trace_path(folder), ops=ops).start()
    if recorder.failure:
        _refuse(folder, recorder.failure)
        return
    rank, _, _ = rank_of_process()
    quiet = inherited["quiet"] or rank != 0
    apply_for_good(inherited["changes"])
    Simulated(
        recorder,
        session,
        folder,
        steps=steps,
        quiet=quiet,
        ops=ops,
        files_to=inherited["files_to"],
    ).begin()
    session.__enter__()


def refusals(folder: Path) -> list[str]:
    """One sentence for each process that has no simulated GPU."""
    return [path.read_text() for path in sorted(folder.glob("*.txt"))]


def _refuse(folder: Path, why: str) -> None:
    words = " ".join(sys.orig_argv)
    words = words if len(words) <= 60 else words[:59] + "…"
    text = f"Process {os.getpid()} (`{words}`) had no simulated GPU: {why}"
    say(text)
    with contextlib.suppress(OSError):
        (folder / f"{os.getpid()}.txt").write_text(text)
