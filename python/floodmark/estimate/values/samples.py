"""Values of tensors that are too large to compute: a short sample that repeats.

A mask of ten million random numbers has about the same share of true elements as a small one. So
floodmark draws a sample, runs elementwise functions on it, and scales counts up. Sees: tensors and
the phantom's record of which bytes have a value. Knows nothing of the program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from floodmark._core import Certainty
from floodmark.estimate.values.host_copies import region_of

#: The length of a sample of random numbers. A share of one half has an error of 0.4 %.
LENGTH = 1 << 14
_MOST_SAMPLES = 256


@dataclass(frozen=True)
class Sample:
    """`LENGTH` values, or one, that repeat through a tensor."""

    values: Any
    certainty: Certainty

    def of_length(self, length: int) -> Any:
        """The values repeated to that length, in a new storage."""
        times = -(-length // len(self.values))
        return self.values.repeat(times)[:length].contiguous()

    def rows(self, numel: int) -> int:
        """The number of non-zero values among that many elements."""
        return round(int(self.values.count_nonzero()) * numel / len(self.values))


class Samples:
    """The samples of the tensors of this process."""

    def __init__(
        self, certainty: Callable[[int, int], Certainty], put: Callable[[int, int, Certainty], None]
    ):
        self._certainty = certainty
        self._put = put
        #: Samples by the address of the storage. A sample is stale once the bytes have another
        #: certainty.
        self._samples: dict[int, tuple[int, Sample]] = {}

    def put(self, tensor: Any, sample: Sample) -> None:
        """Set the sample of a tensor."""
        if len(self._samples) > _MOST_SAMPLES:
            self._drop_stale()
        region = region_of(tensor)
        self._samples[tensor.untyped_storage().data_ptr()] = (region[0], sample)
        self._put(*region, Certainty.SAMPLED)

    def find(self, tensor: Any) -> Sample | None:
        """The sample of a tensor, or of the tensor of which it is a view."""
        if self._certainty(*region_of(tensor)) != Certainty.SAMPLED:
            return None
        found = self._samples.get(tensor.untyped_storage().data_ptr())
        return found[1] if found is not None else None

    def _drop_stale(self) -> None:
        for storage, (address, _) in list(self._samples.items()):
            if self._certainty(address, 1) != Certainty.SAMPLED:
                del self._samples[storage]
