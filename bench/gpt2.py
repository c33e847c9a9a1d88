"""GPT-2 in plain torch: the model that every measurement here trains.

Knows nothing of floodmark. The loss is computed inside the model, so that every operator of the
forward pass runs in a module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Config:
    """The size of a model; GPT-2 small by default."""

    layers: int = 12
    heads: int = 12
    width: int = 768
    vocabulary: int = 50257
    context: int = 1024
    dropout: float = 0.1


#: Small enough for a check of one second.
TINY = Config(layers=4, heads=4, width=256, vocabulary=8192, context=256)


class Attention(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = config.dropout
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.proj = nn.Linear(config.width, config.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        query, key, value = (
            part.view(shape).transpose(1, 2) for part in self.qkv(x).split(width, dim=2)
        )
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.up = nn.Linear(config.width, 4 * config.width)
        self.down = nn.Linear(4 * config.width, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class GPT2(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.places = nn.Embedding(config.context, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.dropout(self.tokens(ids) + self.places(places))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Training:
    """A model, its optimizer and a batch; `step` is one training step."""

    def __init__(
        self, config: Config, *, batch: int, length: int, device: str, bf16: bool = False
    ) -> None:
        torch.manual_seed(0)
        self.device = torch.device(device)
        self.bf16 = bf16
        self.model = GPT2(config).to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        shape = (batch, length)
        self.ids = torch.randint(0, config.vocabulary, shape, device=self.device)
        self.targets = torch.randint(0, config.vocabulary, shape, device=self.device)

    def forward(self) -> torch.Tensor:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16):
            return self.model(self.ids, self.targets)

    def step(self, after: Callable[[str], None] | None = None) -> None:
        """Forward, backward, optimizer, `zero_grad`; `after` is called with each one's name."""
        tell = after or (lambda _: None)
        loss = self.forward()
        tell("forward")
        loss.backward()
        tell("backward")
        self.optimizer.step()
        tell("optimizer")
        self.optimizer.zero_grad(set_to_none=True)
        tell("zero_grad")

    def wait(self) -> None:
        """Wait until the device has finished."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
