"""A real recording and a real estimate, each in a process of its own.

A crash in one of them does not end the command. Sees: the trace and the answer that they write.
Imports no torch.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from floodmark._core import FloodmarkError
from floodmark.doctor.check import Check, last_line, shown_bytes
from floodmark.recording.frame_layout import choose_way
from floodmark.reports.trace import Trace

if TYPE_CHECKING:
    from floodmark.reports import answer_types

#: Time limit of a process in seconds: importing torch from a network disk is slow.
PATIENCE = 300
#: The GPU of the estimate.
GPU = "h100"
#: Variables that launchers set. They are removed: a trial is a program of one process.
OF_LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK")


def record(folder: Path) -> list[Check]:
    """Record a small step: hooks, call stacks, GPUs. The first check says whether it works."""
    path = folder / "small_step.flood"
    done = _floodmark(folder, "run", "--quiet", "-o", str(path), str(_program(folder)))
    if done is None or done.returncode != 0:
        return [Check("Recording", "failed", _ended(done), "send this table with the error")]
    try:
        trace = Trace.open(path)
        header = trace.header
        report = trace.peak(device="cpu").by_line()
    except (FloodmarkError, OSError) as error:
        return [Check("Recording", "failed", str(error), "send this table with the error")]
    checks = [_recording(report.allocated), _hooks(header["not_recorded"])]
    is_found = any(Path(str(row["file"])).name == "small_step.py" for row in report.rows)
    return [*checks, _stacks(is_found), _gpus(header, done.stderr)]


def _recording(peak: int) -> Check:
    if peak == 0:
        hint = "this build of torch does not report its allocations"
        return Check("Recording", "failed", "the trace of a training step is empty", hint)
    return Check("Recording", "ok", f"a training step on the CPU, peak {shown_bytes(peak)}")


def _hooks(not_recorded: list[str]) -> Check:
    if not_recorded:
        return Check("Hooks", "note", "; ".join(not_recorded))
    return Check("Hooks", "ok", "all of torch's functions that the recorder needs are found")


def _stacks(is_found: bool) -> Check:
    can_record, remark = choose_way()
    if not is_found or not can_record:
        return Check("Call stacks", "note", remark or "the line of an allocation was not found")
    if remark:
        return Check("Call stacks", "note", remark)
    return Check("Call stacks", "ok", "read from Python's frames without the GIL")


def _gpus(header: answer_types.Header, stderr: str) -> Check:
    built = f"torch is built for CUDA {header['cuda']}" if header["cuda"] else "torch has no CUDA"
    found = header["devices"]
    if not found:
        return Check("GPUs", "note", f"none found; {built}", cuda_warning(stderr))
    names = [f"{one['name']} ({one['total_bytes'] / 2**30:.0f} GiB)" for one in found]
    return Check("GPUs", "ok", f"{', '.join(names)}; {built}")


def cuda_warning(stderr: str) -> str | None:
    """torch's warning that says why it finds no GPU, or None."""
    for line in stderr.splitlines():
        text = line.partition("UserWarning: ")[2].partition(" (Triggered internally")[0]
        if "CUDA" in text:
            return text
    return None


def estimate(folder: Path) -> Check:
    """Run the same step on a simulated GPU."""
    name = "Simulated GPU"
    done = _floodmark(folder, "estimate", "--gpu", GPU, "--json", str(_program(folder)))
    if done is None or done.returncode != 0:
        return Check(name, "failed", _ended(done), "send this table with the error")
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return Check(name, "failed", f"no answer: {last_line(done.stderr)}")
    if answer["fits"] is not True:
        return Check(name, "failed", f"the step does not end: {answer['error'] or 'unknown'}")
    peak = shown_bytes(answer["peak_allocated"])
    return Check(name, "ok", f"{answer['engine']} engine, the step on {GPU}: peak {peak}")


def _program(folder: Path) -> Path:
    """A copy outside the package: a recording leaves out floodmark's own lines."""
    return Path(shutil.copy(Path(__file__).with_name("small_step.py"), folder))


def _floodmark(folder: Path, *words: str) -> subprocess.CompletedProcess[str] | None:
    """`floodmark WORDS…` in a folder; None when it takes too long."""
    kept = {name: value for name, value in os.environ.items() if name not in OF_LAUNCHERS}
    command = [sys.executable, "-m", "floodmark", *words]
    # The child imports this package even where it is not installed.
    package = str(Path(__file__).parent.parent.parent)
    kept["PYTHONPATH"] = os.pathsep.join(filter(None, [package, kept.get("PYTHONPATH")]))
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env=kept,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None


def _ended(done: subprocess.CompletedProcess[str] | None) -> str:
    """How a process failed: timeout, signal or exit status."""
    if done is None:
        return f"the process did not end within {PATIENCE} s"
    if done.returncode < 0:
        return f"the process was ended by {signal.Signals(-done.returncode).name}"
    return f"exit status {done.returncode}: {last_line(done.stderr)}"
