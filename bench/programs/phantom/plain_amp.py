"""A plain loop: ResNet-18, loader workers, half precision with a scaler."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.models import resnet18


class Pictures(Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randn(3, 224, 224, generator=generator), index % 100


def main():
    device = torch.device("cuda")
    model = resnet18(num_classes=100).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda")
    loader = DataLoader(Pictures(), batch_size=64, num_workers=2, pin_memory=True, shuffle=True)
    for pictures, labels in loader:
        pictures = pictures.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(pictures), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        print("loss", loss.item())


if __name__ == "__main__":
    main()
