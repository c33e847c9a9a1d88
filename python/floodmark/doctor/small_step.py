"""A training step of a few kilobytes: `floodmark doctor` records a copy of it, and estimates it."""

import torch

for device in ["cuda", "cpu"] if torch.cuda.is_available() else ["cpu"]:
    model = torch.nn.Linear(64, 64, device=device)
    model(torch.ones(8, 64, device=device)).sum().backward()
