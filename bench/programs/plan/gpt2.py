"""Trains GPT-2 of transformers with random weights: what `bench/fit_time.py` fits.

python bench/programs/plan/gpt2.py [--batch 4] [--length 512]
"""

from __future__ import annotations

import argparse

import torch
from transformers import GPT2Config, GPT2LMHeadModel

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--length", type=int, default=512)
args = parser.parse_args()

with torch.device("cuda"):
    model = GPT2LMHeadModel(GPT2Config())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(4):
    tokens = torch.randint(0, 50257, (args.batch, args.length), device="cuda")
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
