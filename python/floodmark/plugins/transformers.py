"""transformers on a simulated GPU: generation goes on to its longest.

Which token ends a sequence is a value that is not computed: a search might end after one token, or
never. So here no sequence ends before its greatest length, which is also where it needs most
memory. A model that meets a fake tensor also thinks that it is being traced, and makes masks that
it does not make otherwise. Sees: the criteria that stop a generation, and how models ask whether
they are traced.
"""

from __future__ import annotations

from functools import wraps
from types import ModuleType
from typing import Any

from floodmark.plugins import Plugin

_NOTE = "transformers: no generated sequence ends before its greatest length"


class Transformers(Plugin):
    """Answers for tokens of unknown value."""

    name = "transformers"
    library = "transformers"
    engines = frozenset({"fake", "phantom"})

    def attach(self, library: ModuleType) -> None:
        """Its parts are imported when they are used."""
        self.when_imported("transformers.utils.import_utils", self._trace_nothing)
        self.when_imported("transformers.generation.stopping_criteria", self._never_stop)
        self.when_imported("transformers.generation.utils", self._search_on)

    def _trace_nothing(self, utilities: ModuleType) -> None:
        if hasattr(utilities, "is_fake_tensor"):
            self.replace(utilities, "is_fake_tensor", lambda _tensor: False)

    def _never_stop(self, criteria: ModuleType) -> None:
        for name in ("EosTokenCriteria", "StopStringCriteria", "ConfidenceCriteria"):
            criterion = getattr(criteria, name, None)
            if criterion is not None:
                self.replace(criterion, "__call__", self._without_end(criterion.__call__))

    def _without_end(self, original: Any) -> Any:
        @wraps(original)
        def goes_on(criterion: Any, input_ids: Any, *args: Any, **kwargs: Any) -> Any:
            import torch

            self._say()
            if self.setting.engine == "phantom":
                # What it allocates counts; its value does not.
                ends = original(criterion, input_ids, *args, **kwargs)
                return ends.zero_() if torch.is_tensor(ends) else False
            return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)

        return goes_on

    def _search_on(self, generation: ModuleType) -> None:
        """A search over beams also ends when none can become better."""
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
