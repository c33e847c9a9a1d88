"""Recurrent networks for cuDNN: a grid of them, and what a library says that each takes.

The library is the real cuDNN, on a machine with a GPU, or the phantom's. Only documented calls are
made: descriptors are filled in, and their sizes are asked for.
"""

from __future__ import annotations

import ctypes
import itertools
import random
from collections.abc import Iterator
from typing import NamedTuple

FLOAT, DOUBLE, HALF, BFLOAT16 = 0, 1, 2, 9
DTYPES = {FLOAT: "float32", DOUBLE: "float64", HALF: "float16", BFLOAT16: "bfloat16"}
CELLS = ("relu", "tanh", "lstm", "gru")
STANDARD, STATIC, SMALL = 0, 1, 3
ALGORITHMS = {STANDARD: "standard", STATIC: "static", SMALL: "small"}
#: The types of arithmetic that torch asks for: default, tensor cores, none of them.
MATHS = {FLOAT: (0, 3), HALF: (1,), BFLOAT16: (0, 3), DOUBLE: (0,)}
#: Steps and sequences and their product stay below what fits the GPU.
LARGEST = 1 << 33


class Network(NamedTuple):
    """A network and its batch, in cuDNN's numbers."""

    algorithm: int
    cell: int
    biases: int
    both_ways: int
    dtype: int
    math: int
    input: int
    hidden: int
    proj: int
    layers: int
    dropout: int
    packed: int
    steps: int
    sequences: int
    #: How the lengths of sequences differ.
    lengths: str


class Sizes(NamedTuple):
    """What a library says, in bytes; -1 each when it refuses."""

    weights: int
    training_workspace: int
    reserve: int
    inference_workspace: int


def lengths_of(network: Network) -> list[int]:
    """The length of each sequence, the longest first."""
    steps, count = network.steps, network.sequences
    if network.lengths == "even":
        return [steps] * count
    if network.lengths == "ramp":
        return [max(1, steps - (steps - 1) * i // max(1, count - 1)) for i in range(count)]
    if network.lengths == "one":
        return [steps] + [1] * (count - 1)
    chance = random.Random(f"{network.lengths}{steps}{count}")
    rest = [chance.randint(1, steps) for _ in range(count - 1)]
    return sorted([steps, *rest], reverse=True)


class Cudnn:
    """Descriptors of one library, filled in again for each network."""

    def __init__(self, cudnn: ctypes.CDLL, runtime: ctypes.CDLL) -> None:
        self._cudnn = cudnn
        self._handle = ctypes.c_void_p()
        self._check(cudnn.cudnnCreate(ctypes.byref(self._handle)))
        self._dropout = [self._new("Dropout"), self._new("Dropout")]
        size, states = ctypes.c_size_t(), ctypes.c_void_p()
        self._check(cudnn.cudnnDropoutGetStatesSize(self._handle, ctypes.byref(size)))
        self._check(runtime.cudaMalloc(ctypes.byref(states), size))
        rates = ((0.0, None, ctypes.c_size_t(0)), (0.3, states, size))
        for descriptor, (rate, memory, bytes_) in zip(self._dropout, rates, strict=True):
            rest = (ctypes.c_float(rate), memory, bytes_, ctypes.c_ulonglong(1))
            self._check(cudnn.cudnnSetDropoutDescriptor(descriptor, self._handle, *rest))
        self._network, self._batch = self._new("RNN"), self._new("RNNData")

    def _new(self, kind: str) -> ctypes.c_void_p:
        descriptor = ctypes.c_void_p()
        create = getattr(self._cudnn, f"cudnnCreate{kind}Descriptor")
        self._check(create(ctypes.byref(descriptor)))
        return descriptor

    @staticmethod
    def _check(status: int) -> None:
        if status:
            raise RuntimeError(f"cuDNN or CUDA: error {status}")

    def sizes(self, network: Network) -> Sizes:
        """What this library says of a network."""
        refused = Sizes(-1, -1, -1, -1)
        precision = FLOAT if network.dtype in (HALF, BFLOAT16) else network.dtype
        status = self._cudnn.cudnnSetRNNDescriptor_v8(
            self._network,
            network.algorithm,
            network.cell,
            network.biases,
            network.both_ways,
            0,
            network.dtype,
            precision,
            network.math,
            network.input,
            network.hidden,
            network.proj or network.hidden,
            network.layers,
            self._dropout[network.dropout],
            0 if network.packed else 1,
        )
        if status:
            return refused
        lengths = (ctypes.c_int * network.sequences)(*lengths_of(network))
        self._check(
            self._cudnn.cudnnSetRNNDataDescriptor(
                self._batch,
                network.dtype,
                1 if network.packed else 0,
                network.steps,
                network.sequences,
                network.input,
                lengths,
                ctypes.byref(ctypes.c_double(0)),
            )
        )
        found = [ctypes.c_size_t() for _ in range(4)]
        weights, training, reserve, inference = map(ctypes.byref, found)
        ask, given = self._cudnn.cudnnGetRNNTempSpaceSizes, (self._handle, self._network)
        if ask(*given, 1, self._batch, training, reserve):
            return refused
        self._check(ask(*given, 0, self._batch, inference, None))
        self._check(self._cudnn.cudnnGetRNNWeightSpaceSize(*given, weights))
        return Sizes(*(size.value for size in found))


def networks() -> list[Network]:
    """Sweeps of each number alone, and a sample of everything."""
    return list(dict.fromkeys([*_sweeps(), *_sample()]))


def _kinds() -> Iterator[tuple[int, int, int]]:
    for dtype in (FLOAT, HALF, BFLOAT16):
        for algorithm, packed in ((STANDARD, 0), (STANDARD, 1), (SMALL, 0), (STATIC, 0)):
            if algorithm != STATIC or dtype == HALF:
                yield algorithm, dtype, packed


def _around(*numbers: int) -> list[int]:
    return sorted({max(1, number + by) for number in numbers for by in (-1, 0, 1)})


def _sweeps() -> Iterator[Network]:
    names = ("input", "hidden", "layers", "steps", "sequences")
    bases = ((96, 64, 2, 20, 8), (256, 512, 2, 100, 32), (128, 128, 1, 20, 8))
    sweeps = {
        "steps": [*_around(2, 4, 8, 16, 32, 64, 128, 256), 100, 200, 500, 512, 1000],
        "sequences": [*_around(2, 4, 8, 16, 32, 64, 96, 128, 256), 12, 24, 40, 48, 80, 200, 512],
        "hidden": [
            *range(1, 40, 3),
            *_around(64, 128, 192, 256, 384, 512, 1024),
            *(48, 72, 100, 160, 200, 300, 320, 448, 600, 640, 768, 800, 896),
            *(1280, 1500, 1536, 2000, 2048, 2050),
        ],
        "input": [*_around(2, 8, 32, 128, 256), 16, 64, 100, 200, 512, 600, 1024, 1500, 2048],
        "layers": [1, 2, 3, 4, 5, 6, 8],
    }
    for (algorithm, dtype, packed), cell, both in itertools.product(_kinds(), range(4), (0, 1)):
        for base, (name, values) in itertools.product(bases, sweeps.items()):
            for value in values:
                given = dict(zip(names, base, strict=True)) | {name: value}
                if given["steps"] * given["sequences"] * given["hidden"] * 8 > LARGEST:
                    continue
                yield Network(
                    algorithm,
                    cell,
                    2,
                    both,
                    dtype,
                    MATHS[dtype][0],
                    given["input"],
                    given["hidden"],
                    0,
                    given["layers"],
                    0,
                    packed,
                    given["steps"],
                    given["sequences"],
                    "ramp" if packed else "even",
                )


def _sample() -> Iterator[Network]:
    chance = random.Random(7)
    usual = [1, 2, 3, 5, 8, 13, 16, 24, 31, 32, 33, 40, 50, 64, 65, 96, 100, 127, 128, 129, 150]
    usual += [192, 193, 200, 255, 256, 257, 300, 320, 384, 385, 400, 500, 512, 513, 600, 640, 768]
    usual += [800, 1000, 1024, 1025, 1100, 1280, 1500, 1536, 2048, 3000, 4096]

    def width(most: int = 4096) -> int:
        if chance.random() < 0.8:
            return chance.choice([value for value in usual if value <= most])
        return chance.randint(1, min(most, 2200))

    def count(most: int) -> int:
        if chance.random() < 0.7:
            return chance.choice([value for value in usual if value <= most])
        return chance.randint(1, most)

    for number in range(29_000):
        is_projected = number >= 24_000
        dtype = chance.choice([FLOAT, FLOAT, HALF, HALF, BFLOAT16, BFLOAT16, DOUBLE])
        packed = chance.randint(0, 1)
        choices = (STANDARD, STANDARD, STANDARD, SMALL, SMALL, STATIC)
        algorithm = STANDARD if packed or is_projected else chance.choice(choices)
        hidden = width(400 if algorithm == SMALL else 4096)
        if is_projected:
            hidden = max(2, hidden)
        yield Network(
            algorithm,
            2 if is_projected else chance.randint(0, 3),
            2 if chance.random() < 0.97 else chance.choice([0, 1, 3]),
            chance.randint(0, 1),
            dtype,
            chance.choice(MATHS[dtype]),
            width(),
            hidden,
            width(hidden - 1) if is_projected else 0,
            chance.choice([1, 1, 2, 2, 3, 4, 5, 6]),
            int(chance.random() < 0.3),
            packed,
            count(600),
            count(300),
            chance.choice(["even", "ramp", "one", "r1", "r2"]) if packed else "even",
        )
