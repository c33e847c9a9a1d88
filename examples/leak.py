"""Trains a layer and keeps the output of every step: a leak, for `floodmark leaks` to find."""

import torch

layer = torch.nn.Linear(256, 256)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
outputs = []
for _ in range(8):
    output = layer(torch.randn(1024, 256))
    output.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    outputs.append(output)
