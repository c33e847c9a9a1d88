"""Trains a Qwen3 of 12 layers in bf16: two batches for each step, clipped gradients, fused AdamW.

    python bench/programs/qwen3_accumulated.py [--batch 2] [--length 1024] [--accumulate 2]

It knows nothing of floodmark. With `--times FILE` the seconds, the loss and the norm of the
gradients of each step, and torch's own peaks, are written to a file.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--times", type=Path)
    args = parser.parse_args()
    config = Qwen3Config(
        vocab_size=151_936,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=args.layers,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
    )
    torch.manual_seed(0)
    with torch.device(args.device):
        model = Qwen3ForCausalLM(config).to(torch.bfloat16)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    shape = (args.batch, args.length)
    seconds, losses, norms = [], [], []
    for _ in range(args.steps):
        began = time.perf_counter()
        optimizer.zero_grad()
        for _ in range(args.accumulate):
            tokens = torch.randint(0, config.vocab_size, shape, device=args.device)
            loss = model(input_ids=tokens, labels=tokens).loss
            (loss / args.accumulate).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if args.times:
            losses.append(loss.item())
            norms.append(norm.item())
            seconds.append(time.perf_counter() - began)
    if args.times:
        peaks = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
        found = {"seconds": seconds, "losses": losses, "norms": norms, "peaks": peaks}
        args.times.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
