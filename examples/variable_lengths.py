"""Trains on batches of many lengths, and keeps some results between steps: memory fragments."""

import random

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
chance = random.Random(0)
width = 1024
model = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(8)))
model.to(device)
optimizer = torch.optim.AdamW(model.parameters())
# The last results of some batches, as a validation metric would keep them.
kept: list[torch.Tensor] = []
for step in range(40):
    length = chance.randrange(256, 8192)
    output = model(torch.randn(4, length, width, device=device))
    output.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 3 == 0:
        kept.append(output.detach()[:, : length // 8].clone())
        kept = kept[-6:]
