"""Changes of a program that are applied while it runs, without editing it: `--with CHANGE`.

One file for each kind of change. `apply_changes` attaches them to torch when it is imported; each
says what it was applied to, whether it changes speed or results, and the plain torch code that does
the same. Talks to: `recording.header_facts`, so that a trace names its changes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from floodmark import _core
from floodmark.changes.adapters import Adapters
from floodmark.changes.allocator_settings import AllocatorSettings
from floodmark.changes.attention import SdpaAttention
from floodmark.changes.change import Change
from floodmark.changes.channels_last import ChannelsLast
from floodmark.changes.checkpointing import Checkpointing
from floodmark.changes.chunked_loss import ChunkedLoss
from floodmark.changes.chunked_mlp import ChunkedMlp
from floodmark.changes.compilation import Compilation
from floodmark.changes.eight_bit_states import EightBitStates
from floodmark.changes.embeddings import Embeddings
from floodmark.changes.free_gradients import FreeGradients
from floodmark.changes.graphs import NoGrad
from floodmark.changes.kept_logits import KeptLogits
from floodmark.changes.kv_cache import KvCache
from floodmark.changes.lean_optimizers import LeanOptimizer
from floodmark.changes.micro_batches import MicroBatches
from floodmark.changes.offloaded_states import OffloadedStates
from floodmark.changes.offloading import Offloading
from floodmark.changes.optimizer_in_backward import OptimizerInBackward
from floodmark.changes.optimizers import Foreach, Fused
from floodmark.changes.outermost_calls import watch_outermost_calls
from floodmark.changes.precision import Autocast, Bf16Parameters
from floodmark.changes.sharding import Sharding
from floodmark.recording import header_facts
from floodmark.recording.import_watch import ImportWatch

if TYPE_CHECKING:
    from floodmark.reports.answer_types import AppliedChange

__all__ = ["AppliedChanges", "apply_changes", "apply_for_good", "parse"]

_CLASSES: tuple[type[Change], ...] = (
    AllocatorSettings,
    EightBitStates,
    LeanOptimizer,
    Fused,
    Foreach,
    # Before `offload-optimizer-states`, which hides gradients from a step.
    FreeGradients,
    NoGrad,
    KeptLogits,
    KvCache,
    ChannelsLast,
    OffloadedStates,
    ChunkedLoss,
    SdpaAttention,
    Embeddings,
    Checkpointing,
    ChunkedMlp,
    # Inside of what casts the inputs of a model.
    MicroBatches,
    OptimizerInBackward,
    Offloading,
    Autocast,
    Bf16Parameters,
    Sharding,
    # After `fsdp`: adapters are sharded too, so they are there first.
    Adapters,
    Compilation,
)


_BY_NAME = {kind.name: kind for kind in _CLASSES}


def parse(text: str) -> Change:
    """The change that is written `NAME` or `NAME=ARGUMENT`; a `ValueError` where there is none."""
    name, argument = _core.parse_change(text)
    return _BY_NAME[name](argument)


class AppliedChanges:
    """Changes that are attached to this process, until `undo`."""

    def __init__(self, texts: Iterable[str]) -> None:
        # In the order of the classes: `autocast` must surround what is checkpointed, and so on.
        order = {kind: at for at, kind in enumerate(_CLASSES)}
        self._changes = sorted(map(parse, texts), key=lambda change: order[type(change)])
        self._stack = ExitStack()
        for change in self._changes:
            self._stack.callback(change.exit)
            change.prepare_process()
        self._watch = ImportWatch("torch", self._attach)

    def _attach(self, torch: ModuleType) -> None:
        attached: Any = torch
        for change in self._changes:
            change.guarded(change.attach, attached)
        self._stack.callback(watch_outermost_calls(attached, self._changes))

    def reports(self) -> list[AppliedChange]:
        """What was done, in the order in which the changes are applied."""
        return [change.report() for change in self._changes]

    def undo(self) -> None:
        """Leave torch and the program as they were."""
        with contextlib.suppress(Exception):
            self._watch.stop()
        self._stack.close()


@contextmanager
def apply_changes(texts: Iterable[str]) -> Iterator[AppliedChanges]:
    """Apply changes until the block ends."""
    applied = AppliedChanges(texts)
    try:
        yield applied
    finally:
        applied.undo()


def apply_for_good(texts: Iterable[str]) -> AppliedChanges | None:
    """Apply changes until the process ends, and name them in its trace."""
    texts = list(texts)
    if not texts:
        return None
    applied = AppliedChanges(texts)
    header_facts.add(lambda: {"changes": applied.reports()})
    return applied
