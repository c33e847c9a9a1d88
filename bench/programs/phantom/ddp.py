"""DistributedDataParallel, as `torchrun` starts it."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Sequences(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.randn(128, 1024, generator=torch.Generator().manual_seed(index))


def main():
    dist.init_process_group("nccl")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    layer = nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, device=device)
    model = DistributedDataParallel(
        nn.TransformerEncoder(layer, 12, enable_nested_tensor=False), device_ids=[device.index]
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = Sequences(64 * dist.get_world_size())
    sampler = DistributedSampler(data)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for batch in DataLoader(data, batch_size=16, sampler=sampler):
            loss = model(batch.to(device)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        total = loss.detach().clone()
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            print("loss", total.item() / dist.get_world_size())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
