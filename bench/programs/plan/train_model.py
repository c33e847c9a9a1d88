"""Trains one of six models with random weights: what `bench/conformance/plan_check.py` plans for.

    python bench/programs/plan/train_model.py MODEL [--steps N]

Each is written as its users write it: plain loops, a `Trainer`, autocast. It knows nothing of
floodmark. With `--times FILE` the seconds of each step are written to a file.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

DEVICE = "cuda"
seconds: list[float] = []


def loop(
    model: nn.Module, steps: int, loss_of: Callable[[], torch.Tensor], *, autocast: bool = False
) -> None:
    """A training loop as most scripts have it."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model.train()
    for _ in range(steps):
        began = time.perf_counter()
        optimizer.zero_grad()
        with torch.autocast(DEVICE, dtype=torch.bfloat16) if autocast else nullcontext():
            loss = loss_of()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - began)


def llama(steps: int) -> None:
    """A Llama of 0.5 billion parameters in bf16, without a Trainer."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=32_000,
        hidden_size=1536,
        intermediate_size=4096,
        num_hidden_layers=16,
        num_attention_heads=12,
        num_key_value_heads=12,
        max_position_embeddings=2048,
    )
    with torch.device(DEVICE):
        model = LlamaForCausalLM(config).to(torch.bfloat16)

    def loss_of() -> torch.Tensor:
        ids = torch.randint(0, config.vocab_size, (8, 1024), device=DEVICE)
        logits = model(ids, use_cache=False).logits
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())

    loop(model, steps, loss_of)


def gpt2(steps: int) -> None:
    """GPT-2 through the Trainer of transformers."""
    from transformers import (
        GPT2Config,
        GPT2LMHeadModel,
        Trainer,
        TrainerCallback,
        TrainingArguments,
    )

    model = GPT2LMHeadModel(GPT2Config())

    class Tokens(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
        def __len__(self) -> int:
            return 4096

        def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
            ids = torch.randint(0, 50_257, (512,), generator=torch.Generator().manual_seed(index))
            return {"input_ids": ids, "labels": ids}

    class Clock(TrainerCallback):
        began = 0.0

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            torch.cuda.synchronize()
            self.began = time.perf_counter()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - self.began)

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=16,
            bf16=True,
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
        )
        trainer = Trainer(model=model, args=arguments, train_dataset=Tokens(), callbacks=[Clock()])
        trainer.train()


def vit(steps: int) -> None:
    """ViT-B/16 of torchvision with autocast."""
    from torchvision.models import vit_b_16

    model = vit_b_16().to(DEVICE)

    def loss_of() -> torch.Tensor:
        images = torch.randn(64, 3, 224, 224, device=DEVICE)
        return F.cross_entropy(model(images), torch.randint(0, 1000, (64,), device=DEVICE))

    loop(model, steps, loss_of, autocast=True)


class ResidualBlock(nn.Module):
    """Two convolutions with group norm, as in the UNets of diffusion models."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(32, inner), nn.SiLU(), nn.Conv2d(inner, outer, 3, padding=1)
        )
        self.second = nn.Sequential(
            nn.GroupNorm(32, outer), nn.SiLU(), nn.Conv2d(outer, outer, 3, padding=1)
        )
        self.skip = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.skip(x) + self.second(self.first(x))


class UNet(nn.Module):
    """Down, across and up again, with skip connections."""

    def __init__(self, width: int = 128, levels: int = 3) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(levels)]
        self.start = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList()
        before = width
        for now in widths:
            self.down.append(ResidualBlock(before, now))
            self.down.append(ResidualBlock(now, now))
            before = now
        self.up = nn.ModuleList()
        for now in reversed(widths):
            self.up.append(ResidualBlock(before + now, now))
            self.up.append(ResidualBlock(now + now, now))
            before = now
        self.end = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.start(x)
        kept = []
        for at, block in enumerate(self.down):
            x = block(x)
            kept.append(x)
            if at % 2 and at + 1 < len(self.down):
                x = F.avg_pool2d(x, 2)
        for at, block in enumerate(self.up):
            if at % 2 == 0 and at:
                x = F.interpolate(x, scale_factor=2.0)
            x = block(torch.cat([x, kept.pop()], dim=1))
        return self.end(x)


def unet(steps: int) -> None:
    """A UNet for images of 64 × 64."""
    model = UNet().to(DEVICE)

    def loss_of() -> torch.Tensor:
        images = torch.randn(16, 3, 64, 64, device=DEVICE)
        return F.mse_loss(model(images), images)

    loop(model, steps, loss_of)


def mixtral(steps: int) -> None:
    """A Mixtral with eight small experts in each layer, in bf16."""
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=16_000,
        hidden_size=768,
        intermediate_size=1536,
        num_hidden_layers=8,
        num_attention_heads=12,
        num_key_value_heads=4,
        num_local_experts=8,
        max_position_embeddings=1024,
    )
    with torch.device(DEVICE):
        model = MixtralForCausalLM(config).to(torch.bfloat16)

    def loss_of() -> torch.Tensor:
        ids = torch.randint(0, config.vocab_size, (8, 512), device=DEVICE)
        loss: torch.Tensor = model(ids, labels=ids, use_cache=False).loss
        return loss

    loop(model, steps, loss_of)


def bert(steps: int) -> None:
    """BERT base with autocast."""
    from transformers import BertConfig, BertForMaskedLM

    model = BertForMaskedLM(BertConfig()).to(DEVICE)

    def loss_of() -> torch.Tensor:
        ids = torch.randint(0, 30_000, (32, 256), device=DEVICE)
        loss: torch.Tensor = model(ids, labels=ids).loss
        return loss

    loop(model, steps, loss_of, autocast=True)


MODELS = {
    "llama": llama,
    "gpt2": gpt2,
    "vit": vit,
    "unet": unet,
    "mixtral": mixtral,
    "bert": bert,
}


def main(models: dict[str, Callable[[int], None]] = MODELS) -> None:
    parser = argparse.ArgumentParser(description="Train a model with random weights.")
    parser.add_argument("model", choices=models)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--times", type=Path)
    args = parser.parse_args()
    torch.manual_seed(0)
    models[args.model](args.steps)
    if args.times:
        peaks = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
        args.times.write_text(json.dumps({"seconds": seconds, "peaks": peaks}))


if __name__ == "__main__":
    sys.exit(main())
