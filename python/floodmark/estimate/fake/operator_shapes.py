"""Shapes of the results of operators for which torch has no fake implementation.

torch's kernels for shapes lack these results or need values. Sees: calls of operators. Knows
nothing of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from floodmark import _core, torch_private
from floodmark.estimate.values.fake_values import Follow


class Shapes:
    """Functions that return results with the right shapes."""

    def __init__(self, torch: Any, follow: Follow, multiprocessors: int) -> None:
        self._torch = torch
        self._value_of = follow.value_of
        self._multiprocessors = multiprocessors

    def operators(self) -> dict[Any, Callable[..., Any]]:
        """The functions, by operator."""
        aten = self._torch.ops.aten
        return {
            aten._cudnn_init_dropout_state.default: self._dropout_state,
            aten._cudnn_rnn_flatten_weight.default: self._flatten_weights,
            aten._cudnn_rnn.default: self._recurrent,
            aten._pack_padded_sequence.default: self._pack,
            aten._ctc_loss.Tensor: self._ctc_loss,
            aten._ctc_loss.default: self._ctc_loss,
            aten._pin_memory.default: self._pin,
            aten.pin_memory.default: self._pin,
        }

    def _dropout_state(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The buffer of cuDNN's random states."""
        size = _core.cudnn_dropout_state_bytes(self._multiprocessors)
        device = (kwargs or {}).get("device")
        return self._torch.empty(size, dtype=self._torch.uint8, device=device)

    def _flatten_weights(self, func: Any, args: Any, kwargs: Any) -> Any:
        """One buffer for all weights of a network, which become views of it."""
        weights = args[0]
        whole = weights[0].new_empty((sum(weight.numel() for weight in weights),))
        begin = 0
        for weight in weights:
            part = whole.narrow(0, begin, weight.numel()).view(weight.shape)
            weight.set_(part)
            begin += weight.numel()
        return whole

    def _recurrent(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Recurrent networks also return the buffer of their weights, or a copy, for backward."""
        given = list(args)
        weights = given[1]
        if given[3] is None:
            storages = {torch_private.storage_id(w.untyped_storage()) for w in weights}
            count = sum(weight.numel() for weight in weights)
            if len(storages) == 1:
                given[3] = weights[0].as_strided((count,), (1,), 0)
            else:
                given[3] = weights[0].new_empty((count,))
        result = list(func(*given, **kwargs or {}))
        result[4] = given[3]
        return tuple(result)

    def _pack(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The number of sequences in each step, as a real tensor: torch reads it.

        Unknown lengths are assumed to be the longest."""
        tensor, lengths, batch_first = args
        batch, steps = tensor.shape[:2] if batch_first else tensor.shape[1::-1]
        known = self._value_of(lengths)
        with torch_private.outside_modes():
            long = [steps] * batch if known is None else known.tolist()
            sizes = [sum(length > step for length in long) for step in range(max(long))]
            counts = self._torch.tensor(sizes, dtype=self._torch.int64)
        return tensor.new_empty((sum(sizes), *tensor.shape[2:])), counts

    def _ctc_loss(self, func: Any, args: Any, kwargs: Any) -> Any:
        log_probs, targets = args[0], args[1]
        steps, batch = (
            (log_probs.shape[0], log_probs.shape[1])
            if log_probs.dim() == 3
            else (
                log_probs.shape[0],
                1,
            )
        )
        longest = targets.shape[1] if targets.dim() == 2 else targets.shape[0] // batch
        shape = (batch,) if log_probs.dim() == 3 else ()
        alpha = log_probs.new_empty((batch, steps, 2 * longest + 1))
        return log_probs.new_empty(shape), alpha

    def _pin(self, func: Any, args: Any, kwargs: Any) -> Any:
        return args[0].clone()
