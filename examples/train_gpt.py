"""Trains a character-level GPT on a text that it makes up itself.

An ordinary training script: a dataset, a model, AdamW with a cosine schedule, gradient clipping,
evaluation, checkpoints. It uses nothing but torch, and knows nothing of memory recorders.

    python examples/train_gpt.py --device cpu --steps 20
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

# ------------------------------------------------------------------------------
# Data
# ------------------------------------------------------------------------------

SUBJECTS = ["the river", "the lake", "a wave", "the tide", "the rain", "a stream", "the sea"]
VERBS = ["rises", "falls", "floods", "leaves", "reaches", "covers", "wears down"]
OBJECTS = ["the wall", "the bridge", "a field", "the old mill", "the quay", "the stones", "a mark"]
ENDINGS = ["at night", "in spring", "after the storm", "without a word", "again", "before dawn"]


def make_text(sentences: int, seed: int) -> str:
    """A text with enough structure to be learnt and enough variety not to be dull."""
    chance = random.Random(seed)
    lines = []
    for number in range(sentences):
        words = [
            chance.choice(SUBJECTS),
            chance.choice(VERBS),
            chance.choice(OBJECTS),
            chance.choice(ENDINGS),
        ]
        lines.append(f"{number}: {' '.join(words)}.")
    return "\n".join(lines)


class Vocabulary:
    """Characters and their numbers."""

    def __init__(self, text: str) -> None:
        self.characters = sorted(set(text))
        self._number_of = {character: at for at, character in enumerate(self.characters)}

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, text: str) -> torch.Tensor:
        return torch.tensor([self._number_of[character] for character in text])

    def decode(self, numbers: torch.Tensor) -> str:
        return "".join(self.characters[number] for number in numbers.tolist())


class Windows(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Windows of a text, each with the same window one character later."""

    def __init__(self, ids: torch.Tensor, length: int) -> None:
        self.ids = ids
        self.length = length

    def __len__(self) -> int:
        return len(self.ids) - self.length - 1

    def __getitem__(self, at: int) -> tuple[torch.Tensor, torch.Tensor]:
        chunk = self.ids[at : at + self.length + 1]
        return chunk[:-1], chunk[1:]


# ------------------------------------------------------------------------------
# Model
# ------------------------------------------------------------------------------


@dataclass
class ModelConfig:
    vocabulary: int
    context: int
    layers: int
    heads: int
    width: int
    dropout: float


class SelfAttention(nn.Module):
    """Every place looks at the places before it."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        assert config.width % config.heads == 0
        self.heads = config.heads
        self.query_key_value = nn.Linear(config.width, 3 * config.width)
        self.projection = nn.Linear(config.width, config.width)
        self.attention_dropout = nn.Dropout(config.dropout)
        self.residual_dropout = nn.Dropout(config.dropout)
        mask = torch.ones(config.context, config.context, dtype=torch.bool).tril()
        self.register_buffer("mask", mask.view(1, 1, config.context, config.context))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        query, key, value = self.query_key_value(x).split(width, dim=2)
        query = self.split_heads(query)
        key = self.split_heads(key)
        value = self.split_heads(value)
        scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])
        scores = scores.masked_fill(~self.mask[:, :, :length, :length], float("-inf"))
        weights = self.attention_dropout(F.softmax(scores, dim=-1))
        mixed = (weights @ value).transpose(1, 2).reshape(batch, length, width)
        return self.residual_dropout(self.projection(mixed))

    def split_heads(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)


class MLP(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.up = nn.Linear(config.width, 4 * config.width)
        self.activation = nn.GELU()
        self.down = nn.Linear(4 * config.width, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.down(self.activation(self.up(x))))


class Block(nn.Module):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.width)
        self.attention = SelfAttention(config)
        self.mlp_norm = nn.LayerNorm(config.width)
        self.mlp = MLP(config)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class GPT(nn.Module):
    """Predicts the next character."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.token_embedding = nn.Embedding(config.vocabulary, config.width)
        self.place_embedding = nn.Embedding(config.context, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.apply(self.init_weights)

    @staticmethod
    def init_weights(module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.dropout(self.token_embedding(ids) + self.place_embedding(places))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    @torch.no_grad()
    def generate(self, ids: torch.Tensor, count: int, temperature: float = 0.8) -> torch.Tensor:
        """Go on for `count` characters."""
        for _ in range(count):
            logits = self(ids[:, -self.config.context :])[:, -1] / temperature
            chosen = torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)
            ids = torch.cat([ids, chosen], dim=1)
        return ids


# ------------------------------------------------------------------------------
# Training
# ------------------------------------------------------------------------------


def make_optimizer(model: nn.Module, args: argparse.Namespace) -> torch.optim.Optimizer:
    """AdamW, with weight decay for matrices alone."""
    decayed = [parameter for parameter in model.parameters() if parameter.dim() >= 2]
    others = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    groups = [
        {"params": decayed, "weight_decay": args.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.95))


def make_schedule(
    optimizer: torch.optim.Optimizer, args: argparse.Namespace
) -> torch.optim.lr_scheduler.LambdaLR:
    """A short warm-up, then a cosine down to a tenth."""
    warmup = max(1, args.steps // 10)

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        progress = (step - warmup) / max(1, args.steps - warmup)
        return 0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, progress)))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def loss_of(model: nn.Module, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    logits = model(ids)
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@torch.no_grad()
def evaluate(
    model: nn.Module,
    loader: DataLoader[tuple[torch.Tensor, torch.Tensor]],
    device: torch.device,
    batches: int,
) -> float:
    """The mean loss over a few batches."""
    model.eval()
    total, count = 0.0, 0
    for ids, targets in loader:
        if count >= batches:
            break
        total += loss_of(model, ids.to(device), targets.to(device)).item()
        count += 1
    model.train()
    return total / max(1, count)


def save_checkpoint(folder: Path, step: int, model: GPT, optimizer: torch.optim.Optimizer) -> Path:
    path = folder / f"step-{step:05}.pt"
    state = {
        "step": step,
        "config": asdict(model.config),
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
    }
    torch.save(state, path)
    return path


def endless(
    loader: DataLoader[tuple[torch.Tensor, torch.Tensor]], device: torch.device
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Batches on the device, epoch after epoch."""
    while True:
        for ids, targets in loader:
            yield ids.to(device, non_blocking=True), targets.to(device, non_blocking=True)


def train(args: argparse.Namespace) -> float:
    """Train, and return the last loss of the evaluation."""
    torch.manual_seed(args.seed)
    device = torch.device(args.device)
    text = make_text(args.sentences, args.seed)
    vocabulary = Vocabulary(text)
    ids = vocabulary.encode(text)
    split = int(len(ids) * 0.9)
    training = Windows(ids[:split], args.context)
    validation = Windows(ids[split:], args.context)
    loader = DataLoader(
        training, batch_size=args.batch, shuffle=True, drop_last=True, num_workers=args.workers
    )
    validation_loader = DataLoader(validation, batch_size=args.batch, shuffle=True, drop_last=True)

    config = ModelConfig(
        vocabulary=len(vocabulary),
        context=args.context,
        layers=args.layers,
        heads=args.heads,
        width=args.width,
        dropout=args.dropout,
    )
    model = GPT(config).to(device)
    optimizer = make_optimizer(model, args)
    schedule = make_schedule(optimizer, args)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(
        f"{parameters:,} parameters, {len(text):,} characters, {len(vocabulary)} of them different"
    )

    last = float("nan")
    began = time.perf_counter()
    batches = endless(loader, device)
    with tempfile.TemporaryDirectory(prefix="train-gpt-") as folder:
        for step in range(1, args.steps + 1):
            for _ in range(args.accumulate):
                batch, targets = next(batches)
                loss = loss_of(model, batch, targets) / args.accumulate
                loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), args.clip)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
            if step % args.log_every == 0 or step == args.steps:
                rate = step * args.accumulate * args.batch * args.context
                rate /= time.perf_counter() - began
                print(
                    f"step {step:4}  loss {loss.item() * args.accumulate:.3f}  "
                    f"norm {norm.item():.2f}  lr {schedule.get_last_lr()[0]:.1e}  "
                    f"{rate:,.0f} characters/s"
                )
            if step % args.eval_every == 0 or step == args.steps:
                last = evaluate(model, validation_loader, device, args.eval_batches)
                path = save_checkpoint(Path(folder), step, model, optimizer)
                size = path.stat().st_size / 2**20
                print(f"step {step:4}  evaluation {last:.3f}  checkpoint {size:.1f} MiB")
    if args.sample:
        model.eval()
        prompt = vocabulary.encode("\n").to(device)[None]
        print(vocabulary.decode(model.generate(prompt, args.sample)[0]).strip())
    return last


def parse(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a character-level GPT.")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--accumulate", type=int, default=1, help="batches to one step")
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=0, help="of the data loader")
    parser.add_argument("--log-every", type=int, default=10)
    parser.add_argument("--eval-every", type=int, default=25)
    parser.add_argument("--eval-batches", type=int, default=4)
    parser.add_argument("--sample", type=int, default=80, help="characters to write at the end")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(words)


if __name__ == "__main__":
    train(parse())
