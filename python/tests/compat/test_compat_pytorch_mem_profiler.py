"""Every call of pytorch_mem_profiler, against torch's own counters."""

from __future__ import annotations

import csv
import gc
import json
import re

import pytest
from support.compat_programs import ON_A_PHANTOM, ON_THE_CPU, PROFILED, TELL, source
from support.phantoms import needs_cuda_build

NAME = "profiled_epochs"
LINE = re.compile(r"(  )?(\S.*?)\.{2,}(\d+) MB")
#: Bytes of the weights of the program's model, in MB.
WEIGHTS = {
    "customer.weight": 30_000 * 96 * 4,
    "product.weight": 9_000 * 96 * 4,
    "tower.0.weight": 192 * 160 * 4,
    "tower.0.bias": 160 * 4,
    "tower.1.weight": 160 * 48 * 4,
    "tower.1.bias": 48 * 4,
    "score.weight": 48 * 4,
    "score.bias": 4,
}
LINES = [
    "Peak cached",
    "Current cached",
    "Total feature map usage",
    "Total layer weight usage",
    *WEIGHTS,
    "Total layer weight gradient usage",
    *(f"{name} grad" for name in WEIGHTS),
    "Intermediate gradients",
]


def read(text: str) -> list[dict[str, int]]:
    """The printed tables; every line must be one of the tool's layout."""
    tables: list[dict[str, int]] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line == "*" * 43:
            title = re.fullmatch(r"Memory Usage for Iteration (\d+) of Epoch (\d+)", next(lines))
            assert title
            assert next(lines) == "*" * 43
            tables.append({"iteration": int(title[1]), "epoch": int(title[2])})
        elif line and tables:
            match = LINE.fullmatch(line)
            if match is None:
                assert re.fullmatch(r"Epoch \d+ finished", line), line
                continue
            assert len(line) == 43, line
            tables[-1][match[2]] = int(match[3])
    return tables


def check_weights(table: dict[str, int]) -> None:
    assert list(table) == ["iteration", "epoch", *LINES]
    for name, count in WEIGHTS.items():
        assert table[name] == table[f"{name} grad"] == round(count / 1e6)
    total = round(sum(WEIGHTS.values()) / 1e6)
    assert table["Total layer weight usage"] == total
    assert table["Total layer weight gradient usage"] == total


@needs_cuda_build
def test_the_tables_agree_with_torchs_counters(programs):
    after = """
program.run("cuda")
facts = {"peak": torch.cuda.max_memory_reserved(), "now": torch.cuda.memory_reserved()}
shop = program.Shop(30_000, 9_000).cuda()
(batch, *_) = program.batches("cuda", 20_000, 30_000, 9_000)
before = torch.cuda.memory_allocated()
score = shop(*batch)
facts["maps"] = torch.cuda.memory_allocated() - before - score.untyped_storage().nbytes()
"""
    done = programs.run(source(ON_A_PHANTOM, NAME, after, TELL))
    torchs = json.loads(done.stderr.splitlines()[-1])
    tables = read(done.stdout)
    numbers = [(table["epoch"], table["iteration"]) for table in tables]
    assert numbers == [(1, 2), (1, 4), (2, 2), (2, 4)]
    for table in tables:
        check_weights(table)
        assert abs(table["Total feature map usage"] - torchs["maps"] / 1e6) <= 1
        assert table["Intermediate gradients"] > 0
    last = tables[-1]
    assert last["Peak cached"] == round(torchs["peak"] / 1e6)
    assert last["Current cached"] == round(torchs["now"] / 1e6)
    (file,) = (programs.folder / "memory_csv_data").iterdir()
    assert f"Logging data in ./memory_csv_data/{file.name}" in done.stdout
    header, *rows = csv.reader(file.open())
    assert [tuple(map(int, row[:2])) for row in rows] == numbers
    assert header[:4] == ["epoch", "iteration", "peak_cached", "current_cached"]
    assert len(header) == len(rows[-1])
    for row, table in zip(rows, tables, strict=True):
        assert [int(cell) for cell in row[2:]] == list(table.values())[2:]


def test_the_tables_agree_with_the_profiler_on_the_cpu(programs):
    after = """
program.run("cpu")
shop = program.Shop(30_000, 9_000)
(batch, *_) = program.batches("cpu", 20_000, 30_000, 9_000)
optimizer = torch.optim.SGD(shop.parameters(), lr=0.1)

def step():
    shop(*batch).square().mean().backward()
    optimizer.step()

base = sum(t.untyped_storage().nbytes() for t in [*shop.parameters(), *batch])
facts = {"peak": base + profiled(step)[0]}
"""
    done = programs.run(source(ON_THE_CPU + PROFILED, NAME, after, TELL))
    theirs = json.loads(done.stderr.splitlines()[-1])
    tables = read(done.stdout)
    assert len(tables) == 4
    rows = 20_000 * 4 / 1e6
    for table in tables:
        check_weights(table)
        # What autograd saves: the rows of both tables together, and the output of each relu.
        assert table["Total feature map usage"] == round(rows * (192 + 160 + 48))
        assert abs(table["Peak cached"] - theirs["peak"] / 1e6) <= 1


CHAIN = """
import torch
from floodmark_compat.pytorch_mem_profiler import *
wide = dict(bias=False)
model = torch.nn.Sequential(
    torch.nn.Linear(10, 1000, **wide), torch.nn.ReLU(), torch.nn.Linear(1000, 10, **wide)
)
x = torch.randn(10000, 10)
profiler = memory_profiler(model)
for epoch in range(2):
    for _ in range(2):
        model(x).sum().backward()
        model.zero_grad()
        profiler.record_stats()
    profiler.epoch_end()
"""


def test_feature_maps_and_gradients_of_a_known_chain(programs):
    tables = read(programs.run(CHAIN).stdout)
    assert [(t["epoch"], t["iteration"]) for t in tables] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    for table in tables:
        # What ReLU made, 10,000 × 1,000 floats, is kept; not added up over iterations.
        assert table["Total feature map usage"] == 40
        # Its gradient and the gradient of what went into it are there at once.
        assert table["Intermediate gradients"] == 80


@pytest.mark.parametrize("period", [0, -5, 2.5, "5", None, True])
def test_a_period_that_is_no_positive_integer_is_refused(period, tmp_path, monkeypatch):
    from floodmark_compat.pytorch_mem_profiler import memory_profiler

    monkeypatch.chdir(tmp_path)
    with pytest.raises((TypeError, ValueError), match="print_period must be a positive integer"):
        memory_profiler(None, print_period=period, csv=True)
    assert list(tmp_path.iterdir()) == []


BY_HAND = """
import torch
from floodmark_compat.pytorch_mem_profiler import *
# 64 MB of weights, and rows of 4 MB: what is intermediate is small.
model = torch.nn.Sequential(
    torch.nn.Linear(4000, 2000, bias=False), torch.nn.Linear(2000, 4000, bias=False)
)
x = torch.randn(500, 4000)
profiler = memory_profiler(model)
weights = list(model.parameters())
for _ in range(2):
    model(x).sum().backward()
    with torch.no_grad():
        for weight in weights:
            weight -= 0.01 * weight.grad
            weight.grad.zero_()
    profiler.record_stats()
for _ in range(2):
    gradients = torch.autograd.grad(model(x).sum(), weights)
    with torch.no_grad():
        for weight, gradient in zip(weights, gradients):
            weight -= 0.01 * gradient
    del gradient, gradients
    profiler.record_stats()
# Gradients that are sparse.
del profiler
table = torch.nn.Embedding(1000, 1000, sparse=True)
words = memory_profiler(table)
table(torch.arange(500)).sum().backward()
words.record_stats()
"""


def test_a_profiler_that_is_dropped_leaves_nothing_behind():
    import torch

    import floodmark
    from floodmark_compat.pytorch_mem_profiler import memory_profiler

    model = torch.nn.Linear(4, 4)
    profiler = memory_profiler(model)
    assert floodmark.is_recording()
    del profiler
    gc.collect()
    assert not floodmark.is_recording()
    assert not any(each._post_accumulate_grad_hooks for each in model.parameters())


def test_weight_gradients_are_no_intermediate_gradients_without_an_optimizer(programs):
    done = programs.run(BY_HAND)
    assert done.stderr == ""
    *tables, sparse = read(done.stdout)
    assert len(tables) == 4
    assert sparse["weight grad"] == 2
    for table in tables:
        assert table["Total layer weight gradient usage"] == 64
        # The gradient of what the first layer computed, 500 x 2000, and that of the sum, expanded.
        assert table["Intermediate gradients"] <= 12


TWO = """
import torch
from floodmark_compat.pytorch_mem_profiler import *
first = torch.nn.Linear(1000, 1000, bias=False)
second = torch.nn.Linear(1000, 2000, bias=False)
x = torch.randn(2000, 1000)
profilers = [memory_profiler(first), memory_profiler(second)]
for _ in range(2):
    second(torch.relu(first(x))).sum().backward()
    for profiler in profilers:
        profiler.record_stats()
    first.weight.grad = second.weight.grad = None
"""


def test_several_profilers_at_once(programs):
    done = programs.run(TWO)
    assert done.stderr == ""
    tables = read(done.stdout)
    assert [table["weight grad"] for table in tables] == [4, 8, 4, 8]
    for name in ("Total feature map usage", "Intermediate gradients"):
        # Both see the whole program.
        assert len({table[name] for table in tables}) == 1
        assert tables[0][name] > 0
