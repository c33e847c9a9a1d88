"""Values of tensors that are too large to be worked out: a short sample that repeats.

A mask of ten million random numbers has about as many rows as a small one has in proportion, so a
sample is drawn, functions of single elements are run on the sample, and counts are scaled up.
Sees: tensors and the phantom's record of which bytes have a value. Knows nothing of the program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from floodmark._core import Certainty
from floodmark.estimate.values.host_copies import region_of

#: The length of a sample of random numbers. Half of the elements, counted in it, is right to 0.4 %.
LENGTH = 1 << 14
_MOST_SAMPLES = 256


@dataclass(frozen=True)
class Sample:
    """Values that repeat through a tensor: `LENGTH` of them, or one."""

    values: Any
    certainty: Certainty

    def of_length(self, length: int) -> Any:
        """The values, repeated to that length, in storage of their own."""
        times = -(-length // len(self.values))
        return self.values.repeat(times)[:length].contiguous()

    def rows(self, numel: int) -> int:
        """How many of that number of elements are not zero."""
        return round(int(self.values.count_nonzero()) * numel / len(self.values))


class Samples:
    """The samples of the tensors of this process."""

    def __init__(
        self, certainty: Callable[[int, int], Certainty], put: Callable[[int, int, Certainty], None]
    ):
        self._certainty = certainty
        self._put = put
        #: By the address of the storage. One that is stale has bytes of another certainty.
        self._samples: dict[int, tuple[int, Sample]] = {}

    def put(self, tensor: Any, sample: Sample) -> None:
        """The tensor's values are this sample from now on."""
        if len(self._samples) > _MOST_SAMPLES:
            self._drop_stale()
        region = region_of(tensor)
        self._samples[tensor.untyped_storage().data_ptr()] = (region[0], sample)
        self._put(*region, Certainty.SAMPLED)

    def find(self, tensor: Any) -> Sample | None:
        """The sample of a tensor, or of the one that it is a view of."""
        if self._certainty(*region_of(tensor)) != Certainty.SAMPLED:
            return None
        found = self._samples.get(tensor.untyped_storage().data_ptr())
        return found[1] if found is not None else None

    def _drop_stale(self) -> None:
        for storage, (address, _) in list(self._samples.items()):
            if self._certainty(address, 1) != Certainty.SAMPLED:
                del self._samples[storage]
