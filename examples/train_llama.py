"""Trains a Llama of random weights on random tokens: what a step of a language model needs.

    python examples/train_llama.py --layers 16 --batch 2 --length 2048

`--memory-fraction` limits the program to a part of the GPU: with a small one it runs out of memory.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.head_width = width // heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, kv_heads * self.head_width, bias=False)
        self.v_proj = nn.Linear(width, kv_heads * self.head_width, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        query = rotate(self.split(self.q_proj(x)), cos, sin)
        key = rotate(self.split(self.k_proj(x)), cos, sin)
        value = self.split(self.v_proj(x))
        out = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return self.o_proj(out.transpose(1, 2).flatten(2))

    def split(self, x: torch.Tensor) -> torch.Tensor:
        """Batch, length, width to batch, heads, length, width of a head."""
        return x.unflatten(2, (-1, self.head_width)).transpose(1, 2)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary position embedding."""
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin


class MLP(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        hidden = 4 * width
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(width)
        self.self_attn = Attention(width, heads, kv_heads)
        self.post_attention_layernorm = nn.RMSNorm(width)
        self.mlp = MLP(width)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self.checkpoints = args.checkpoints
        self.embed_tokens = nn.Embedding(args.vocabulary, args.width)
        self.layers = nn.ModuleList(
            Block(args.width, args.heads, args.kv_heads) for _ in range(args.layers)
        )
        self.norm = nn.RMSNorm(args.width)
        self.lm_head = nn.Linear(args.width, args.vocabulary, bias=False)
        head_width = args.width // args.heads
        frequencies = 10000.0 ** -(torch.arange(0, head_width, 2) / head_width)
        angles = torch.outer(torch.arange(args.length), frequencies).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed_tokens(ids)
        for layer in self.layers:
            if self.checkpoints:
                x = checkpoint(layer, x, self.cos, self.sin, use_reentrant=False)
            else:
                x = layer(x, self.cos, self.sin)
        return self.lm_head(self.norm(x))


def train(args: argparse.Namespace) -> None:
    torch.manual_seed(0)
    if args.memory_fraction:
        torch.cuda.set_per_process_memory_fraction(args.memory_fraction)
    with torch.device(args.device):
        model = Llama(args)
    model.to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(args.steps):
        ids = torch.randint(args.vocabulary, (args.batch, args.length), device=args.device)
        logits = model(ids)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())
        del logits
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}  loss {loss.item():.3f}")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a Llama of random weights.")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--heads", type=int, default=32)
    parser.add_argument("--kv-heads", type=int, default=8)
    parser.add_argument("--vocabulary", type=int, default=128256)
    parser.add_argument("--checkpoints", action="store_true", help="checkpoint every block")
    parser.add_argument("--memory-fraction", type=float, help="limit of this program, 0 to 1")
    return parser.parse_args()


if __name__ == "__main__":
    train(parse())
