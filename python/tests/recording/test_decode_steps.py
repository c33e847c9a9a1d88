"""Steps of a program that generates, without a name that says what a KV cache is."""

from __future__ import annotations

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query_key_value = nn.Linear(width, 3 * width)

    def forward(self, x, past):
        query, key, value = (part.contiguous() for part in self.query_key_value(x).chunk(3, -1))
        if past is not None:
            key = torch.cat([past[0], key], 1)
            value = torch.cat([past[1], value], 1)
        return nn.functional.scaled_dot_product_attention(query, key, value), (key, value)


class Model(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.embed = nn.Embedding(32, width)
        self.layers = nn.ModuleList(Attention(width) for _ in range(2))
        self.head = nn.Linear(width, 32)

    def forward(self, tokens, past=None):
        x = self.embed(tokens)
        kept = []
        for number, layer in enumerate(self.layers):
            x, cache = layer(x, past[number] if past else None)
            kept.append(cache)
        return self.head(x[:, -1:]), kept


def generate(model, tokens, count):
    past = None
    with torch.no_grad():
        for _ in range(count):
            logits, past = model(tokens, past)
            tokens = logits.argmax(-1)


def kinds(trace):
    rows = trace.report(by="step", device="cpu").rows
    return [row["kind"] for row in rows if row["is_finished"]]


def test_each_token_of_a_plain_loop_is_a_decode_step(record):
    model = Model()
    with record() as recorded:
        generate(model, torch.ones(1, 8, dtype=torch.long), 7)
    trace = recorded.trace
    assert kinds(trace) == ["prefill"] + ["decode"] * 6
    leaks = trace.leaks(device="cpu")
    # Keys and values of two layers, for one token more.
    assert leaks.to_dict()["kv_cache_per_step"] == 2 * 2 * 64 * 4
    cache = [row for row in trace.lifetimes("cpu") if row["category"] == "KV cache"]
    assert len(cache) == 2 * 2 * 6


def test_generation_between_two_steps_of_an_optimizer_is_no_step(record):
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with record() as recorded:
        for _ in range(2):
            generate(model, torch.ones(1, 8, dtype=torch.long), 5)
            model(torch.ones(1, 8, dtype=torch.long))[0].sum().backward()
            optimizer.step()
    assert kinds(recorded.trace) == [None, None]
