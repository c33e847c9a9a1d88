"""Trains one of ten models with random weights to which no rule of a plan was fitted.

    python bench/programs/plan/unseen.py MODEL [--steps N]

Five are transformers and five are not. They know nothing of floodmark.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F
from train_model import DEVICE, loop, main
from zoo import language, torchvision_model, transformers_model


def opt(steps: int) -> None:
    """OPT with 350 million parameters, in bf16."""
    from transformers import OPTConfig

    config = OPTConfig(
        vocab_size=50_272,
        hidden_size=1024,
        num_hidden_layers=24,
        ffn_dim=4096,
        num_attention_heads=16,
        dropout=0.1,
        use_cache=False,
    )
    model = transformers_model("OPTForCausalLM", config, torch.bfloat16)
    loop(model, steps, language(model, config.vocab_size, 8, 512))


def gemma3(steps: int) -> None:
    """A Gemma 3 of 12 layers with sliding windows and a vocabulary of 262,144, in bf16."""
    from transformers import Gemma3TextConfig

    config = Gemma3TextConfig(
        vocab_size=262_144,
        hidden_size=1152,
        intermediate_size=6912,
        num_hidden_layers=12,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=256,
        sliding_window=512,
        use_cache=False,
    )
    model = transformers_model("Gemma3ForCausalLM", config, torch.bfloat16)
    loop(model, steps, language(model, config.vocab_size, 4, 1024))


def modernbert(steps: int) -> None:
    """ModernBERT base with autocast: its own masked language loss."""
    from transformers import ModernBertConfig

    config = ModernBertConfig(attn_implementation="sdpa", reference_compile=False)
    model = transformers_model("ModernBertForMaskedLM", config)
    loop(model, steps, language(model, 50_000, 16, 512), autocast=True)


def whisper(steps: int) -> None:
    """Whisper small: sound to text, with autocast."""
    from transformers import WhisperConfig

    config = WhisperConfig(
        d_model=768,
        encoder_layers=12,
        decoder_layers=12,
        encoder_attention_heads=12,
        decoder_attention_heads=12,
        encoder_ffn_dim=3072,
        decoder_ffn_dim=3072,
        use_cache=False,
    )
    model = transformers_model("WhisperForConditionalGeneration", config)

    def loss_of() -> torch.Tensor:
        sound = torch.randn(8, config.num_mel_bins, 3000, device=DEVICE)
        words = torch.randint(0, 50_000, (8, 192), device=DEVICE)
        loss: torch.Tensor = model(input_features=sound, labels=words).loss
        return loss

    loop(model, steps, loss_of, autocast=True)


def dinov2(steps: int) -> None:
    """DINOv2 base with a linear classifier, in fp32 with TF32 products."""
    from transformers import Dinov2Config

    torch.backends.cuda.matmul.allow_tf32 = True
    config = Dinov2Config(image_size=224, num_labels=1000)
    model = transformers_model("Dinov2ForImageClassification", config)

    def loss_of() -> torch.Tensor:
        images = torch.randn(32, 3, 224, 224, device=DEVICE)
        labels = torch.randint(0, 1000, (32,), device=DEVICE)
        loss: torch.Tensor = model(pixel_values=images, labels=labels).loss
        return loss

    loop(model, steps, loss_of)


def densenet(steps: int) -> None:
    """DenseNet-121 with autocast: many small convolutions, whose inputs are concatenated."""
    model = torchvision_model("densenet121")

    def loss_of() -> torch.Tensor:
        images = torch.randn(64, 3, 224, 224, device=DEVICE)
        return F.cross_entropy(model(images), torch.randint(0, 1000, (64,), device=DEVICE))

    loop(model, steps, loss_of, autocast=True)


def deeplab(steps: int) -> None:
    """DeepLabV3 on a ResNet-50: segmentation with dilated convolutions, in fp32."""
    import torchvision

    with torch.device(DEVICE):
        segmentation = torchvision.models.segmentation
        model = segmentation.deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=21)

    def loss_of() -> torch.Tensor:
        images = torch.randn(8, 3, 384, 384, device=DEVICE)
        classes = torch.randint(0, 21, (8, 384, 384), device=DEVICE)
        return F.cross_entropy(model(images)["out"], classes)

    loop(model, steps, loss_of)


class MixerBlock(nn.Module):
    """Two MLPs: one over the patches, one over the channels."""

    def __init__(self, patches: int, width: int) -> None:
        super().__init__()
        self.before_patches, self.before_channels = nn.LayerNorm(width), nn.LayerNorm(width)
        self.over_patches = nn.Sequential(
            nn.Linear(patches, 4 * patches), nn.GELU(), nn.Linear(4 * patches, patches)
        )
        self.over_channels = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.over_patches(self.before_patches(x).transpose(1, 2)).transpose(1, 2)
        return x + self.over_channels(self.before_channels(x))


def mixer(steps: int) -> None:
    """An MLP-Mixer of 12 blocks with autocast."""
    with torch.device(DEVICE):
        patches = nn.Conv2d(3, 768, 16, 16)
        blocks = nn.Sequential(*(MixerBlock(196, 768) for _ in range(12)))
        model = nn.ModuleDict({"patches": patches, "blocks": blocks, "head": nn.Linear(768, 1000)})

    class Mixer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = model

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            x = self.parts["patches"](images).flatten(2).transpose(1, 2)
            logits: torch.Tensor = self.parts["head"](self.parts["blocks"](x).mean(1))
            return logits

    whole = Mixer()

    def loss_of() -> torch.Tensor:
        images = torch.randn(64, 3, 224, 224, device=DEVICE)
        return F.cross_entropy(whole(images), torch.randint(0, 1000, (64,), device=DEVICE))

    loop(whole, steps, loss_of, autocast=True)


class Dilated(nn.Module):
    """A gated convolution over time, as in WaveNet."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.gated = nn.Conv1d(width, 2 * width, 3, padding=dilation, dilation=dilation)
        self.mixed = nn.Conv1d(width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        value, gate = self.gated(x).chunk(2, dim=1)
        return x + self.mixed(torch.tanh(value) * torch.sigmoid(gate))


def wavenet(steps: int) -> None:
    """A WaveNet of 20 gated convolutions on sound, in fp32."""
    with torch.device(DEVICE):
        layers = (Dilated(256, 2 ** (at % 10)) for at in range(20))
        model = nn.Sequential(nn.Conv1d(1, 256, 1), *layers, nn.Conv1d(256, 256, 1))

    def loss_of() -> torch.Tensor:
        sound = torch.randn(8, 1, 8192, device=DEVICE)
        classes = torch.randint(0, 256, (8, 8192), device=DEVICE)
        return F.cross_entropy(model(sound), classes)

    loop(model, steps, loss_of)


class Autoencoder(nn.Module):
    """Convolutions down to a small code with noise, and transposed ones up again."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 64, 128, 256, 512)
        self.down = nn.ModuleList(self._down(*pair) for pair in itertools.pairwise(widths))
        up = widths[::-1]
        self.up = nn.ModuleList(self._up(*pair) for pair in itertools.pairwise(up))
        self.mean, self.spread = nn.Conv2d(512, 64, 1), nn.Conv2d(512, 64, 1)
        self.start = nn.Conv2d(64, 512, 1)

    @staticmethod
    def _down(inner: int, outer: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(inner, outer, 4, 2, 1), nn.BatchNorm2d(outer), nn.LeakyReLU(0.2)
        )

    @staticmethod
    def _up(inner: int, outer: int) -> nn.Module:
        return nn.Sequential(
            nn.ConvTranspose2d(inner, outer, 4, 2, 1), nn.BatchNorm2d(outer), nn.LeakyReLU(0.2)
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        for part in self.down:
            x = part(x)
        mean, spread = self.mean(x), self.spread(x)
        x = self.start(mean + torch.randn_like(mean) * torch.exp(spread / 2))
        for part in self.up:
            x = part(x)
        return x, mean, spread


def autoencoder(steps: int) -> None:
    """A variational autoencoder for images of 128 × 128, in fp32."""
    with torch.device(DEVICE):
        model = Autoencoder()

    def loss_of() -> torch.Tensor:
        images = torch.randn(64, 3, 128, 128, device=DEVICE)
        made, mean, spread = model(images)
        apart = (mean.square() + spread.exp() - 1 - spread).mean()
        return F.mse_loss(made, images) + apart / 2

    loop(model, steps, loss_of)


MODELS: dict[str, Callable[[int], None]] = {
    "opt": opt,
    "gemma3": gemma3,
    "modernbert": modernbert,
    "whisper": whisper,
    "dinov2": dinov2,
    "densenet": densenet,
    "deeplab": deeplab,
    "mixer": mixer,
    "wavenet": wavenet,
    "autoencoder": autoencoder,
}


if __name__ == "__main__":
    sys.exit(main(MODELS))
