"""Waits for torch's NCCL watchdogs at the end of each step on a simulated GPU.

A watchdog checks ten times a second which collectives are complete, and retains the tensors of
those that nothing waited for until then, mostly DDP's buckets. On a real GPU a step takes longer
than that. Here several steps would pass, and the peak would depend on the host's speed. Sees:
optimizers' steps, process groups. Knows nothing of recordings.
"""

from __future__ import annotations

import sys
import time
from types import ModuleType
from typing import Any

from floodmark import torch_private_distributed
from floodmark.recording.import_watch import ImportWatch

#: A little more than the watchdog's interval (`kWatchdogThreadSleepMillis`).
_SECONDS = 0.12

_watch: ImportWatch | None = None


def install() -> None:
    """Wait for the watchdogs at the end of each optimizer step of this process."""
    global _watch
    if _watch is None:
        _watch = ImportWatch("torch.optim.optimizer", _watch_steps)


def _watch_steps(optimizer: ModuleType) -> None:
    register = getattr(optimizer, "register_optimizer_step_post_hook", None)
    if register is not None:
        register(lambda *_: _settle())


def _settle() -> None:
    c10d: Any = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is None or not c10d.is_initialized():
        return
    can_ask = True
    groups, _ = torch_private_distributed.process_groups(c10d)
    for group in list(groups):
        try:
            torch_private_distributed.wait_for_pending_works(group)
        except (AttributeError, RuntimeError):
            can_ask = False
    if not can_ask:
        time.sleep(_SECONDS)
