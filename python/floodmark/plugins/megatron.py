"""Plugin for megatron-core under fake tensors: every expert gets the same number of tokens.

Parallel layers, pipelines, buffers and optimizers need only `torch.distributed`. The expert of a
token is a value that is not computed, and without a limit on an expert's tokens it decides shapes:
here every expert gets an equal share, on every rank. Sees: routers and what dispatchers gather.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from floodmark.plugins import Plugin
from floodmark.torch_private import outside_modes

_NOTE = "megatron-core: every expert is assumed to get an equal share of the tokens, on every rank"


class Megatron(Plugin):
    """Replaces the routing of tokens to experts."""

    name = "megatron-core"
    library = "megatron.core"

    def attach(self, library: ModuleType) -> None:
        """Patch the modules of mixtures of experts once they are imported."""
        moe = "megatron.core.transformer.moe"
        self.when_imported(f"{moe}.router", self._share_tokens)
        self.when_imported(f"{moe}.token_dispatcher", self._repeat_counts)

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

    def _repeat_counts(self, dispatchers: ModuleType) -> None:
        """Assume that other ranks send the same counts as this one."""
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
    """This rank's counts, repeated for every rank."""
    import torch

    with outside_modes():
        return torch.cat([known] * (length // max(known.shape[0], 1)))


def _shares(tokens: int, experts: int, each: int) -> Any:
    """A routing map that assigns tokens to experts evenly."""
    import torch

    with outside_modes():
        chosen = torch.zeros(tokens, experts, dtype=torch.bool)
        places = torch.arange(tokens * each) % experts
        return chosen.scatter_(1, places.view(tokens, each), True)
