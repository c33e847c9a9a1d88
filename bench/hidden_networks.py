"""Networks whose convolutions are looked into: one step of each, forward and backward.

Sees: torch and torchvision on a CUDA device, real or not. Knows nothing of how calls are watched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
import torchvision
from torch import nn

#: Name, images in a batch, whether in bf16, whether with channels last.
VISION = (
    ("resnet18", 32, False, False),
    ("resnet18", 32, True, False),
    ("resnet50", 64, False, False),
    ("resnet50", 64, True, False),
    ("resnet50", 64, True, True),
    ("vgg16", 16, False, False),
    ("mobilenet_v2", 32, True, False),
    ("efficientnet_b0", 32, False, False),
    ("convnext_tiny", 32, False, False),
)


def block(given: int, made: int) -> nn.Sequential:
    """Two convolutions, as in a U-Net."""
    return nn.Sequential(
        nn.Conv2d(given, made, 3, padding=1),
        nn.GroupNorm(8, made),
        nn.SiLU(),
        nn.Conv2d(made, made, 3, padding=1),
        nn.SiLU(),
    )


class UNet(nn.Module):
    """Three levels."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            [block(3, width), block(width, 2 * width), block(2 * width, 4 * width)]
        )
        self.up = nn.ModuleList(
            [
                nn.ConvTranspose2d(4 * width, 2 * width, 2, 2),
                nn.ConvTranspose2d(2 * width, width, 2, 2),
            ]
        )
        self.join = nn.ModuleList([block(4 * width, 2 * width), block(2 * width, width)])
        self.last = nn.Conv2d(width, 1, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        first = self.down[0](images)
        second = self.down[1](F.max_pool2d(first, 2))
        third = self.down[2](F.max_pool2d(second, 2))
        second = self.join[0](torch.cat([self.up[0](third), second], 1))
        first = self.join[1](torch.cat([self.up[1](second), first], 1))
        return self.last(first)


def step(make: Callable[[], nn.Module], sizes: tuple[int, ...], half: bool, last: bool) -> None:
    """One step of a network."""
    kind = torch.channels_last if last else torch.contiguous_format
    with torch.device("cuda"):
        network = make().to(memory_format=kind)
        images = torch.empty(sizes).to(memory_format=kind)
    with torch.autocast("cuda", torch.bfloat16, enabled=half):
        result = network(images)
    result.float().sum().backward()


def programs() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every network, with its name."""
    for name, batch, half, last in VISION:
        title = f"{name}, {batch} images, {'bf16' if half else 'fp32'}{', channels last' * last}"
        make = getattr(torchvision.models, name)
        yield title, lambda m=make, b=batch, h=half, c=last: step(m, (b, 3, 224, 224), h, c)
    for half, last in ((False, False), (True, False), (True, True)):
        title = f"U-Net, 8 images of 256, {'bf16' if half else 'fp32'}{', channels last' * last}"
        yield title, lambda h=half, c=last: step(UNet, (8, 3, 256, 256), h, c)
