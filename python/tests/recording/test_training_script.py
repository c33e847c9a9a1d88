"""A training script that knows nothing of us: nearly every byte at its peak has a line."""

from __future__ import annotations

import pytest
from support.flood_file import FloodFile
from support.programs import Programs

import floodmark

SCRIPT = """
import math
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2)) / math.sqrt(w // self.heads)
        mask = torch.ones(t, t, dtype=torch.bool).triu(1)
        weights = F.dropout(scores.masked_fill(mask, -1e9).softmax(-1), 0.1, self.training)
        return self.out((weights @ v).transpose(1, 2).reshape(b, t, w))


class Block(nn.Module):
    def __init__(self, width, heads, remember):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = Attention(width, heads)
        wide = 4 * width
        self.mlp = nn.Sequential(nn.Linear(width, wide), nn.GELU(), nn.Linear(wide, width))
        self.remember = remember

    def inner(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.mlp(self.norms[1](x))

    def forward(self, x):
        if self.remember:
            return self.inner(x)
        return checkpoint(self.inner, x, use_reentrant=False)


class Model(nn.Module):
    def __init__(self, words=300, width=64, depth=4):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.position = nn.Parameter(torch.zeros(1, 64, width))
        self.blocks = nn.ModuleList(Block(width, 4, at % 2 == 0) for at in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens) + self.position[:, : tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def groups(model, decay):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    return [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]


def main():
    torch.manual_seed(0)
    model = Model()
    average = [p.detach().clone() for p in model.parameters()]
    optimizer = torch.optim.AdamW(groups(model, 0.1), lr=3e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min(1, (n + 1) / 4))
    tokens = torch.randint(0, 300, (32, 65))
    batches = DataLoader(TensorDataset(tokens), batch_size=8, shuffle=True)
    for epoch in range(2):
        for (batch,) in batches:
            logits = model(batch[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
            with torch.no_grad():
                for kept, now in zip(average, model.parameters()):
                    kept.lerp_(now, 0.1)
        model.eval()
        with torch.no_grad():
            print("epoch", epoch, model(tokens[:8, :-1]).shape)
        model.train()


if __name__ == "__main__":
    main()
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    programs = Programs(tmp_path_factory.mktemp("trained"))
    programs.write(SCRIPT, "train.py")
    done = programs.floodmark("run", "-o", "a.flood", "train.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("epoch") == 2
    return programs.folder / "a.flood"


def test_nearly_every_byte_at_the_peak_has_a_line(trained):
    report = floodmark.Trace.open(trained).peak("cpu").by_line(top=None)
    placed = sum(row["bytes"] for row in report if row["file"] is not None)
    assert report.losses == []
    assert placed >= 0.95 * report.allocated
    of_script = sum(row["bytes"] for row in report if (row["file"] or "").endswith("train.py"))
    assert of_script >= 0.95 * report.allocated


def test_every_backward_allocation_of_a_module_is_given_to_it(trained):
    backward = [event for event in FloodFile(trained).allocations() if event.backward]
    assert len(backward) > 1000
    for event in backward:
        if event.module is None:
            # The loss is computed outside the model, and gradients are added up outside every node.
            inner = [frame for frame in event.frames if frame.file.endswith("train.py")]
            assert inner[0].name == "main", event
            assert not event.is_in("_wrapped_call_impl"), event


def test_steps_phases_and_categories_are_there(trained):
    trace = floodmark.Trace.open(trained)
    assert trace.summary()["steps"] == 8
    peak = trace.peak("cpu")
    categories = {row["category"]: row["bytes"] for row in peak.by_category()}
    assert categories["parameter"] > 0
    assert categories["activation"] > 0
    assert categories["optimizer state"] > 0
    assert categories.get("unknown", 0) <= 0.25 * peak.by_line().allocated
    names = {row["location"] for row in peak.by_module()}
    assert {"blocks.0.attention.qkv", "blocks.3.mlp.0", "embed"} <= names
