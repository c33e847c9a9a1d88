"""Shows what fills the memory of a PyTorch program, and estimates it without a GPU.

    import floodmark

    with floodmark.trace("step.flood") as trace:
        loss = model(batch).loss
        loss.backward()
        optimizer.step()

    print(trace.peak().by_line())

Importing floodmark does not import torch and does not initialise CUDA.

PYTEST_DONT_REWRITE: `floodmark run -m pytest` imports floodmark before pytest, which would warn.
"""

from typing import Any

from floodmark._core import FloodmarkError, PhantomError, SnapshotError, __version__
from floodmark.estimate.context_manager import estimate
from floodmark.estimate.phantom.simulated_gpu import phantom
from floodmark.recording.recorder import (
    Recorder,
    RecordingOptions,
    is_recording,
    mark,
    phase,
    start,
    step,
    stop,
    trace,
)
from floodmark.reports.oom_messages import OomMessages, explain_oom
from floodmark.reports.saved_page import SavedPage, view
from floodmark.reports.trace import (
    Advice,
    Diff,
    Estimate,
    Leaks,
    Ledger,
    Moment,
    Oom,
    Report,
    Simulation,
    Trace,
)

__all__ = [
    "Advice",
    "Diff",
    "Estimate",
    "FloodmarkError",
    "Leaks",
    "Ledger",
    "Moment",
    "Oom",
    "OomMessages",
    "PhantomError",
    "Recorder",
    "RecordingOptions",
    "Report",
    "SavedPage",
    "Simulation",
    "SnapshotError",
    "Trace",
    "__version__",
    "estimate",
    "explain_oom",
    "is_recording",
    "mark",
    "phantom",
    "phase",
    "start",
    "step",
    "stop",
    "trace",
    "view",
]


def load_ipython_extension(shell: Any) -> None:
    """`%load_ext floodmark` in a notebook: adds `%%floodmark` and `%%estimate`."""
    from floodmark.integrations import ipython

    ipython.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """`%unload_ext floodmark` in a notebook."""
    from floodmark.integrations import ipython

    ipython.unload(shell)
