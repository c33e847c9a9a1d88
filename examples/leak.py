"""Trains a layer and keeps the output of every step: a leak, for `floodmark leaks` to find."""

import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
layer = torch.nn.Linear(256, 256, device=device)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
outputs = []
for _ in range(8):
    output = layer(torch.randn(1024, 256, device=device))
    output.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    outputs.append(output)
