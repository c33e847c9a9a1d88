"""Trains one of fourteen small models with random weights, beside the six of `train_model.py`.

    python bench/programs/plan/zoo.py MODEL [--steps N]

Each has something of its own: an optimizer, a precision, a loop, a kind of layer. They know nothing
of floodmark.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from train_model import DEVICE, loop, main


def classify(model: nn.Module, batch: int, size: int = 224, **options: Any) -> Callable[[], Any]:
    """The loss of random images."""

    def loss_of() -> torch.Tensor:
        images = torch.randn(batch, 3, size, size, device=DEVICE).to(**options)
        labels = torch.randint(0, 1000, (batch,), device=DEVICE)
        return F.cross_entropy(model(images), labels)

    return loss_of


def torchvision_model(name: str) -> nn.Module:
    """A model of torchvision on the GPU."""
    import torchvision

    with torch.device(DEVICE):
        model: nn.Module = getattr(torchvision.models, name)(weights=None)
    return model


def transformers_model(name: str, config: Any, dtype: torch.dtype = torch.float32) -> nn.Module:
    """A model of transformers on the GPU."""
    import transformers

    with torch.device(DEVICE):
        model: nn.Module = getattr(transformers, name)(config).to(dtype)
    return model


def language(model: nn.Module, words: int, batch: int, length: int) -> Callable[[], Any]:
    """The loss of random tokens, as transformers computes it."""

    def loss_of() -> torch.Tensor:
        ids = torch.randint(0, words, (batch, length), device=DEVICE)
        loss: torch.Tensor = model(input_ids=ids, labels=ids).loss
        return loss

    return loss_of


def resnet50(steps: int) -> None:
    """ResNet-50, channels last, autocast."""
    model = torchvision_model("resnet50").to(memory_format=torch.channels_last)
    loss_of = classify(model, 64, memory_format=torch.channels_last)
    loop(model, steps, loss_of, autocast=True)


def resnet18_sgd(steps: int) -> None:
    """ResNet-18 with SGD and momentum."""
    model = torchvision_model("resnet18").train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loss_of = classify(model, 64)
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of().backward()
        optimizer.step()


def convnext(steps: int) -> None:
    """ConvNeXt tiny."""
    model = torchvision_model("convnext_tiny")
    loop(model, steps, classify(model, 32), autocast=True)


def swin(steps: int) -> None:
    """Swin tiny."""
    model = torchvision_model("swin_t")
    loop(model, steps, classify(model, 32), autocast=True)


def efficientnet(steps: int) -> None:
    """EfficientNet B0."""
    model = torchvision_model("efficientnet_b0")
    loop(model, steps, classify(model, 64), autocast=True)


def gpt2_fp32(steps: int) -> None:
    """GPT-2 in fp32, in a plain loop."""
    from transformers import GPT2Config

    model = transformers_model("GPT2LMHeadModel", GPT2Config(use_cache=False))
    loop(model, steps, language(model, 50_257, 8, 512))


def qwen2(steps: int) -> None:
    """A Qwen2 of half a billion parameters in bf16, whose head is its embedding."""
    from transformers import Qwen2Config

    config = Qwen2Config(
        vocab_size=151_936,
        hidden_size=896,
        intermediate_size=4864,
        num_hidden_layers=24,
        num_attention_heads=14,
        num_key_value_heads=2,
        tie_word_embeddings=True,
        use_cache=False,
    )
    model = transformers_model("Qwen2ForCausalLM", config, torch.bfloat16)
    loop(model, steps, language(model, config.vocab_size, 2, 1024))


def llama_checkpointed(steps: int) -> None:
    """A Llama whose blocks are checkpointed already."""
    from transformers import LlamaConfig

    config = LlamaConfig(
        vocab_size=32_000,
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=12,
        num_attention_heads=16,
        use_cache=False,
    )
    model: Any = transformers_model("LlamaForCausalLM", config, torch.bfloat16)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    loop(model, steps, language(model, config.vocab_size, 8, 1024))


def bert_scaled(steps: int) -> None:
    """BERT in fp16 with a `GradScaler`, accumulated gradients and clipping."""
    from transformers import BertConfig

    model = transformers_model("BertForMaskedLM", BertConfig()).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler(DEVICE)
    loss_of = language(model, 30_000, 16, 128)
    for _ in range(steps):
        for _ in range(2):
            with torch.autocast(DEVICE, dtype=torch.float16):
                loss = loss_of() / 2
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def t5(steps: int) -> None:
    """T5 small: an encoder and a decoder."""
    from transformers import T5Config

    config = T5Config(decoder_start_token_id=0, use_cache=False)
    model = transformers_model("T5ForConditionalGeneration", config)
    loop(model, steps, language(model, config.vocab_size, 16, 256))


def wav2vec2(steps: int) -> None:
    """Wav2Vec2 base on eight seconds of sound."""
    from transformers import Wav2Vec2Config

    config = Wav2Vec2Config(mask_time_prob=0.0)
    model: Any = transformers_model("Wav2Vec2Model", config)

    def loss_of() -> torch.Tensor:
        sound = torch.randn(8, 8 * 16_000, device=DEVICE)
        loss: torch.Tensor = model(sound).last_hidden_state.square().mean()
        return loss

    loop(model, steps, loss_of, autocast=True)


class Recurrent(nn.Module):
    """An LSTM language model."""

    def __init__(self, words: int = 10_000, width: int = 1024) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.LSTM(width, width, 2, batch_first=True, dropout=0.1)
        self.head = nn.Linear(width, words)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.layers(self.embedding(ids))[0])
        return logits


def lstm(steps: int) -> None:
    """An LSTM with Adam."""
    with torch.device(DEVICE):
        model = Recurrent().train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(steps):
        ids = torch.randint(0, 10_000, (64, 256), device=DEVICE)
        optimizer.zero_grad()
        F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
        optimizer.step()


class Recommender(nn.Module):
    """Embeddings of users and items, and a small network above them."""

    def __init__(self, users: int = 200_000, items: int = 50_000, width: int = 128) -> None:
        super().__init__()
        self.users = nn.Embedding(users, width)
        self.items = nn.Embedding(items, width)
        self.layers = nn.Sequential(
            nn.Linear(2 * width, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1)
        )

    def forward(self, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        both = torch.cat([self.users(users), self.items(items)], dim=-1)
        score: torch.Tensor = self.layers(both)
        return score.squeeze(-1)


def recommender(steps: int) -> None:
    """Mostly optimizer states."""
    with torch.device(DEVICE):
        model = Recommender()

    def loss_of() -> torch.Tensor:
        users = torch.randint(0, 200_000, (65_536,), device=DEVICE)
        items = torch.randint(0, 50_000, (65_536,), device=DEVICE)
        clicks = torch.rand(65_536, device=DEVICE)
        return F.binary_cross_entropy_with_logits(model(users, items), clicks)

    loop(model, steps, loss_of)


def encoder(steps: int) -> None:
    """`nn.TransformerEncoder`, eight layers."""
    with torch.device(DEVICE):
        layer = nn.TransformerEncoderLayer(768, 12, 3072, batch_first=True)
        model = nn.TransformerEncoder(layer, 8, enable_nested_tensor=False)

    def loss_of() -> torch.Tensor:
        found: torch.Tensor = model(torch.randn(16, 512, 768, device=DEVICE))
        return found.square().mean()

    loop(model, steps, loss_of)


MODELS = {
    "resnet50": resnet50,
    "resnet18_sgd": resnet18_sgd,
    "convnext": convnext,
    "swin": swin,
    "efficientnet": efficientnet,
    "gpt2_fp32": gpt2_fp32,
    "qwen2": qwen2,
    "llama_checkpointed": llama_checkpointed,
    "bert_scaled": bert_scaled,
    "t5": t5,
    "wav2vec2": wav2vec2,
    "lstm": lstm,
    "recommender": recommender,
    "encoder": encoder,
}


if __name__ == "__main__":
    sys.exit(main(MODELS))
