"""megatron-core under fake tensors: experts that get the same number of tokens.

Parallel layers, pipelines, buffers and optimizers need nothing beyond `torch.distributed`. Which
expert a token goes to is a value, and without a limit on an expert's tokens it decides shapes: here
every expert gets its share, on every rank. Sees: routers and what dispatchers gather.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from floodmark.plugins import Plugin
from floodmark.torch_private import outside_modes

_NOTE = "megatron-core: every expert is assumed to get its share of the tokens, on every rank"


class Megatron(Plugin):
    """Answers for the routes of tokens."""

    name = "megatron-core"
    library = "megatron.core"

    def attach(self, library: ModuleType) -> None:
        """Its mixtures of experts are imported when they are used."""
        moe = "megatron.core.transformer.moe"
        self.when_imported(f"{moe}.router", self._share_tokens)
        self.when_imported(f"{moe}.token_dispatcher", self._know_other_ranks)

    def _share_tokens(self, routers: ModuleType) -> None:
        route = routers.TopKRouter.forward

        def routed(router: Any, *args: Any, **kwargs: Any) -> Any:
            chances, chosen = route(router, *args, **kwargs)
            if chosen.dim() == 2:
                tokens, experts = chosen.shape
                self.setting.values.give(chosen, _shares(tokens, experts, int(router.topk)))
                self._say()
            return chances, chosen

        self.replace(routers.TopKRouter, "forward", routed)

    def _know_other_ranks(self, dispatchers: ModuleType) -> None:
        """What others send of their counts is what this rank would."""
        name = "gather_from_sequence_parallel_region"
        gather = getattr(dispatchers, name)
        values = self.setting.values

        def gathered(counts: Any, *args: Any, **kwargs: Any) -> Any:
            result = gather(counts, *args, **kwargs)
            known = values.value_of(counts)
            if known is not None and result is not counts and known.dim():
                values.give(result, _of_all_ranks(known, result.shape[0]))
            return result

        self.replace(dispatchers, name, gathered)

    def _say(self) -> None:
        self.setting.note(_NOTE)


def _of_all_ranks(known: Any, length: int) -> Any:
    """The same from every rank, one after the other."""
    import torch

    with outside_modes():
        return torch.cat([known] * (length // max(known.shape[0], 1)))


def _shares(tokens: int, experts: int, each: int) -> Any:
    """Which token goes where, as evenly as can be."""
    import torch

    with outside_modes():
        chosen = torch.zeros(tokens, experts, dtype=torch.bool)
        places = torch.arange(tokens * each) % experts
        return chosen.scatter_(1, places.view(tokens, each), True)
