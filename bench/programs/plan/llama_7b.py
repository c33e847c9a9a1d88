"""Trains a Llama of 7 billion parameters in bf16 with AdamW, in a plain loop, with random weights.

python bench/programs/plan/llama_7b.py [--batch 1] [--length 2048] [--steps N]
"""

from __future__ import annotations

import argparse

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    config = LlamaConfig()
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for _ in range(args.steps):
        ids = torch.randint(0, config.vocab_size, (args.batch, args.length), device="cuda")
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
