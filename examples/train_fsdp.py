"""Trains a stack of linear layers with FSDP2: one rank of a distributed program.

    torchrun --nproc-per-node 8 examples/train_fsdp.py

With `BACKEND=gloo` all ranks share one GPU: slow, but each of them allocates what it would alone.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

WIDTH, LAYERS = 4096, 16


def main() -> None:
    dist.init_process_group(os.environ.get("BACKEND", "nccl"))
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)))
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device="cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        model(torch.randn(1024, WIDTH, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
