"""Plugin for transformers on a simulated GPU: generates sequences of the maximum length.

The token that ends a sequence is a value that is not computed: a generation might end after one
token, or never. So no sequence ends before its maximum length, where it needs the most memory. With
fake tensors, models also assume that they are being traced, and create masks that they do not
create otherwise. Sees: the stopping criteria, and the check for tracing.
"""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any

from floodmark.plugins import Plugin

_NOTE = "transformers: every generated sequence has the maximum length"


class Transformers(Plugin):
    """Removes the ends of sequences that depend on tokens."""

    name = "transformers"
    library = "transformers"
    engines = frozenset({"fake", "phantom"})

    def attach(self, library: ModuleType) -> None:
        """Patch the modules once they are imported."""
        self.when_imported("transformers.utils.import_utils", self._disable_tracing_check)
        self.when_imported("transformers.generation.stopping_criteria", self._ignore_stop_tokens)
        self.when_imported("transformers.generation.utils", self._continue_beams)

    def _disable_tracing_check(self, utilities: ModuleType) -> None:
        if hasattr(utilities, "is_fake_tensor"):
            self.replace(utilities, "is_fake_tensor", lambda _tensor: False)

    def _ignore_stop_tokens(self, criteria: ModuleType) -> None:
        for name in ("EosTokenCriteria", "StopStringCriteria", "ConfidenceCriteria"):
            criterion = getattr(criteria, name, None)
            if criterion is not None:
                self.replace(criterion, "__call__", self._allocate_only(criterion.__call__))

    def _allocate_only(self, original: Any) -> Any:
        @wraps(original)
        def goes_on(criterion: Any, input_ids: Any, *args: Any, **kwargs: Any) -> Any:
            import torch

            self._say()
            if self.setting.engine == "phantom":
                # Its allocations count; its result is ignored.
                ends = original(criterion, input_ids, *args, **kwargs)
                return ends.zero_() if torch.is_tensor(ends) else False
            return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)

        return goes_on

    def _continue_beams(self, generation: ModuleType) -> None:
        """Continue a beam search, which also ends when no beam can improve."""
        mixin = generation.GenerationMixin
        name = "_beam_search_has_unfinished_sequences"
        if not hasattr(mixin, name):
            return

        def goes_on(_improves: Any, _finished: Any, stopped: Any, _early: Any) -> Any:
            self._say()
            return ~stopped.all()

        self.replace(mixin, name, staticmethod(goes_on))

    def _say(self) -> None:
        self.setting.note(_NOTE)
