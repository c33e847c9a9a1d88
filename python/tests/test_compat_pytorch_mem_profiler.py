"""The README of pytorch_mem_profiler, run as it stands, against torch's own counters."""

from __future__ import annotations

import csv
import json
import re

import pytest
from phantoms import needs_cuda_build
from seeds import ON_A_PHANTOM, ON_THE_CPU, PROFILED, blocks, without_cuda

CODE = blocks("pytorch_mem_profiler", "python")
TABLE = blocks("pytorch_mem_profiler")[-1]
LINE = re.compile(r"(  )?(\S.*?)\.{2,}(\d+) MB")

# The README's model on MovieLens-20M: its table has the sizes of exactly these weights.
MODEL = """
import json, sys

class NeuMF(torch.nn.Module):
    def __init__(self, users, items):
        super().__init__()
        self.mf_user_embed = torch.nn.Embedding(users, 64)
        self.mf_item_embed = torch.nn.Embedding(items, 64)
        self.mlp_user_embed = torch.nn.Embedding(users, 128)
        self.mlp_item_embed = torch.nn.Embedding(items, 128)
        sizes = [(256, 256), (256, 128), (128, 64)]
        self.mlp = torch.nn.ModuleList(torch.nn.Linear(*size) for size in sizes)
        self.final = torch.nn.Linear(128, 1)

    def forward(self, user, item):
        mf = self.mf_user_embed(user) * self.mf_item_embed(item)
        x = torch.cat([self.mlp_user_embed(user), self.mlp_item_embed(item)], dim=1)
        for layer in self.mlp:
            x = torch.relu(layer(x))
        return self.final(torch.cat([mf, x], dim=1))

users, items = 138493, 26744
num_epochs = 1
user = torch.randint(0, users, ({batch},)).cuda()
item = torch.randint(0, items, ({batch},)).cuda()
loader = [(user, item)] * {iterations}
"""
STEP = """
        before = counter()
        loss = model(*batch_data)
        maps = counter() - before - loss.untyped_storage().nbytes()
        loss = loss.sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
"""
OPTIMIZER = "\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"


def program(start: str, batch: int, iterations: int, after: str, counter: str) -> str:
    """The README's code blocks one after the other, with a model and a step put in."""
    imports, _, make, create, loop = CODE
    assert "from pytorch_mem_profiler import *" in imports
    imports = imports.replace(
        "from pytorch_mem_profiler", "from floodmark.compat.pytorch_mem_profiler"
    )
    loop = loop.replace("        <training loop logic>\n", STEP)
    loop = loop.replace("<end of epoch logic>", "pass")
    model = MODEL.format(batch=batch, iterations=iterations)
    return "\n".join([start, imports, model, make, OPTIMIZER, counter, create, loop, after])


def read(text: str) -> list[dict[str, int]]:
    """The printed tables; every line must be one of the README's layout."""
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


def test_the_readmes_own_table_has_the_layout_that_is_checked():
    (table,) = read(TABLE)
    assert table["iteration"] == 85
    assert table["mlp_user_embed.weight grad"] == 71
    assert len(table) == 2 + 3 + 13 + 13 + 1


@needs_cuda_build
def test_the_readme_runs_and_agrees_with_torchs_counters(programs):
    after = """
print(json.dumps({
    "peak": torch.cuda.max_memory_reserved(), "now": torch.cuda.memory_reserved(), "maps": maps,
}), file=sys.stderr)
"""
    counter = "counter = torch.cuda.memory_allocated\n"
    done = programs.run(program(ON_A_PHANTOM, 40000, 10, after, counter))
    torchs = json.loads(done.stderr.splitlines()[-1])
    tables = read(done.stdout)
    assert [table["iteration"] for table in tables] == [5, 10]
    (readme,) = read(TABLE)
    # Names in the same order, and the sizes of weights and gradients as the README has them.
    assert list(tables[-1]) == list(readme)
    for name in readme:
        if "weight" in name or "bias" in name:
            assert tables[-1][name] == readme[name], name
    last = tables[-1]
    assert last["Peak cached"] == round(torchs["peak"] / 1e6)
    assert last["Current cached"] == round(torchs["now"] / 1e6)
    assert abs(last["Total feature map usage"] - torchs["maps"] / 1e6) <= 1
    assert last["Intermediate gradients"] > 0
    (file,) = (programs.folder / "memory_csv_data").iterdir()
    header, *rows = csv.reader(file.open())
    assert [row[:2] for row in rows] == [["1", "5"], ["1", "10"]]
    assert header[:4] == ["epoch", "iteration", "peak_cached", "current_cached"]
    assert [int(cell) for cell in rows[-1][2:]] == list(last.values())[2:]


def test_the_readme_runs_on_the_cpu(programs):
    after = """
def step():
    model(*loader[0]).sum().backward()
    optimizer.step()

base = sum(t.untyped_storage().nbytes() for t in [*model.parameters(), user, item])
print(json.dumps({"peak": base + profiled(step)[0]}), file=sys.stderr)
"""
    source = program(ON_THE_CPU + PROFILED, 4000, 5, after, "counter = lambda: 0\n")
    done = programs.run(without_cuda(source))
    theirs = json.loads(done.stderr.splitlines()[-1])
    (table,) = read(done.stdout)
    (readme,) = read(TABLE)
    assert list(table) == list(readme)
    batch = 4000 * 4 / 1e6
    # What the product, the layers and their relus keep: two embeddings, two concatenations, and
    # what each relu made. The rest is let go of in the forward pass.
    assert table["Total feature map usage"] == round(batch * (64 + 64 + 256 + 256 + 128 + 64 + 128))
    assert abs(table["Peak cached"] - theirs["peak"] / 1e6) <= 1


CHAIN = """
import torch
from floodmark.compat.pytorch_mem_profiler import *
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


def test_a_period_below_one_is_refused():
    from floodmark.compat.pytorch_mem_profiler import memory_profiler

    with pytest.raises(ValueError, match="print_period must be 1 or more"):
        memory_profiler(None, print_period=0)


def test_beside_another_recording_the_table_says_what_it_does_not_know(programs):
    source = "import floodmark\nother = floodmark.start()\n" + CHAIN
    done = programs.run(source)
    assert "Total feature map usage" + "." * 16 + "? MB" in done.stdout
    assert "a recording is running already" in done.stderr
