"""Trains a small GPT of plain torch with random weights: what `changes_check.py` changes.

    python bench/programs/plan/small_gpt.py [--steps N] [--times FILE]

It knows nothing of floodmark. With `--times FILE` the seconds of each step, the loss of the last
one and torch's own peaks are written to a file.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, BLOCKS, WORDS = 768, 12, 12, 16_384
BATCH, LENGTH = 8, 512


class Block(nn.Module):
    """Attention and an MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.qkv(self.norms[0](x)).view(BATCH, LENGTH, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Gpt(nn.Module):
    """Words in, logits out."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--times", type=Path)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Gpt().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    seconds = []
    loss = torch.zeros(())
    for _ in range(args.steps):
        began = time.perf_counter()
        ids = torch.randint(0, WORDS, (BATCH, LENGTH), device="cuda")
        logits = model(ids)
        loss = F.cross_entropy(logits.flatten(0, 1), ids.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if args.times:
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - began)
    if args.times:
        peaks = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
        found = {"seconds": seconds, "peaks": peaks, "loss": loss.item()}
        args.times.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
