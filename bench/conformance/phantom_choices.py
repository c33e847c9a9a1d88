"""Cases of `phantom_models.py` in which cuDNN and cuBLASLt have many choices: convolutions in bf16
and in three dimensions, speech, long sequences, beam search."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from phantom_models import Step, case, images, language_model, training, vision
from torch import nn

BF16 = torch.bfloat16


class Residual(nn.Module):
    """Two convolutions with group norms, conditioned on the diffusion time."""

    def __init__(self, inputs: int, outputs: int, times: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(16, inputs), nn.GroupNorm(16, outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(times, outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x: Any, time: Any) -> Any:
        out = self.conv1(F.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(out)))


class Attention(nn.Module):
    """Attention over the pixels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(16, width)
        self.qkv, self.out = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x: Any) -> Any:
        n, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(n, 3, 4, c // 4, h * w).transpose(3, 4).unbind(1)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(mixed.transpose(2, 3).reshape(n, c, h, w))


class Diffusion(nn.Module):
    """A UNet of a diffusion model: residual blocks, attention below, skips across."""

    def __init__(self, base: int = 64, levels: tuple[int, ...] = (1, 2, 4, 4)) -> None:
        super().__init__()
        times = 4 * base
        self.embed = nn.Sequential(nn.Linear(base, times), nn.SiLU(), nn.Linear(times, times))
        self.first = nn.Conv2d(3, base, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        widths, width = [base], base
        for level, factor in enumerate(levels):
            for _ in range(2):
                self.down.append(Residual(width, base * factor, times))
                width = base * factor
                widths.append(width)
            if level < len(levels) - 1:
                self.down.append(nn.Conv2d(width, width, 3, 2, 1))
                widths.append(width)
        self.middle = Residual(width, width, times)
        self.attention = Attention(width)
        for level, factor in reversed(list(enumerate(levels))):
            for _ in range(3):
                self.up.append(Residual(width + widths.pop(), base * factor, times))
                width = base * factor
            if level:
                self.up.append(nn.Conv2d(width, width, 3, padding=1))
        self.base = base
        self.last = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x: Any, steps: Any) -> Any:
        rates = torch.exp(torch.arange(self.base // 2, device=x.device) * -0.3)
        angles = steps[:, None].float() * rates[None]
        time = self.embed(torch.cat([angles.sin(), angles.cos()], 1))
        x = self.first(x)
        kept = [x]
        for layer in self.down:
            x = layer(x, time) if isinstance(layer, Residual) else layer(x)
            kept.append(x)
        x = self.attention(self.middle(x, time))
        for layer in self.up:
            if isinstance(layer, Residual):
                x = layer(torch.cat([x, kept.pop()], 1), time)
            else:
                x = layer(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.last(F.silu(x))


def diffusion(batch: int, size: int, autocast: Any, base: int = 64) -> tuple[Any, Step]:
    model = Diffusion(base).cuda()
    average = copy.deepcopy(model).requires_grad_(False)

    def loss_of() -> Any:
        x, noise = images(batch, size)[0], torch.randn(batch, 3, size, size, device="cuda")
        steps = torch.randint(0, 1000, (batch,), device="cuda")
        return F.mse_loss(model(x + noise, steps).float(), noise)

    train = training(model, loss_of, autocast=autocast)

    @torch.no_grad()
    def step() -> None:
        with torch.enable_grad():
            train()
        for mean, now in zip(average.parameters(), model.parameters(), strict=True):
            mean.lerp_(now, 0.001)

    return (model, average), step


@case
def diffusion_bf16_ema() -> tuple[Any, Step]:
    return diffusion(16, 64, BF16)


@case
def diffusion_bf16_wide() -> tuple[Any, Step]:
    return diffusion(4, 128, BF16, base=128)


@case
def diffusion_fp32() -> tuple[Any, Step]:
    return diffusion(8, 64, None)


def video(name: str, autocast: Any) -> tuple[Any, Step]:
    import torchvision

    model = getattr(torchvision.models.video, name)(weights=None).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)

    def loss_of() -> Any:
        clips = torch.randn(4, 3, 8, 112, 112, device="cuda")
        return F.cross_entropy(model(clips).float(), torch.zeros(4, device="cuda").long())

    return model, training(model, loss_of, optimizer, autocast)


@case
def video_r2plus1d() -> tuple[Any, Step]:
    return video("r2plus1d_18", None)


@case
def video_r2plus1d_bf16() -> tuple[Any, Step]:
    return video("r2plus1d_18", BF16)


@case
def video_r3d() -> tuple[Any, Step]:
    return video("r3d_18", None)


@case
def bart_beams_bf16() -> tuple[Any, Step]:
    import transformers

    configuration = transformers.BartConfig(
        vocab_size=20000, d_model=512, encoder_layers=4, decoder_layers=4
    )
    with torch.device("cuda"):
        model = transformers.BartForConditionalGeneration(configuration).to(BF16).eval()
    ids = torch.randint(4, 20000, (4, 200), device="cuda")

    @torch.no_grad()
    def step() -> None:
        model.generate(ids, num_beams=4, min_new_tokens=24, max_new_tokens=24, do_sample=False)

    return model, step


@case
def wav2vec2() -> tuple[Any, Step]:
    import transformers

    configuration = transformers.Wav2Vec2Config(
        hidden_size=384,
        num_hidden_layers=4,
        num_attention_heads=6,
        intermediate_size=1536,
        mask_time_prob=0.0,
        layerdrop=0.0,
    )
    with torch.device("cuda"):
        model = transformers.Wav2Vec2ForCTC(configuration)
    model.train()

    def loss_of() -> Any:
        sound = torch.randn(4, 48000, device="cuda")
        labels = torch.randint(1, 30, (4, 20), device="cuda")
        return model(sound, labels=labels).loss

    return model, training(model, loss_of)


@case
def long_encoder_bf16() -> tuple[Any, Step]:
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dropout=0.1)
    model = nn.TransformerEncoder(layer, 4).to("cuda", BF16)

    def loss_of() -> Any:
        return model(torch.randn(2, 4096, 512, device="cuda", dtype=BF16)).float().square().mean()

    return model, training(model, loss_of)


@case
def gpt2_checkpoints_bf16() -> tuple[Any, Step]:
    options = {"checkpoints": True}
    model, loss_of = language_model("GPT2", 4, 512, n_layer=6, options=options)
    return model, training(model, loss_of, autocast=BF16, clip=1.0)


@case
def unet_small_bf16() -> tuple[Any, Step]:
    from phantom_models import UNet

    model = UNet((16, 32, 64)).cuda()

    def loss_of() -> Any:
        return model(images(4, 96)[0]).float().square().mean()

    return model, training(model, loss_of, autocast=BF16)


@case
def efficientnet_fp32() -> tuple[Any, Step]:
    return vision("efficientnet_b0", 16)


@case
def efficientnet_v2_bf16() -> tuple[Any, Step]:
    return vision("efficientnet_v2_s", 16, autocast=BF16)


@case
def regnet_bf16_channels_last() -> tuple[Any, Step]:
    return vision("regnet_y_1_6gf", 32, autocast=BF16, channels_last=True)


@case
def resnet50_bf16() -> tuple[Any, Step]:
    return vision("resnet50", 32, autocast=BF16)


@case
def dcgan_bf16() -> tuple[Any, Step]:
    widths = (100, 512, 256, 128, 64)
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [
            nn.ConvTranspose2d(a, b, 4, 1 if a == 100 else 2, 0 if a == 100 else 1, bias=False),
            nn.BatchNorm2d(b),
            nn.ReLU(),
        ]
    model = nn.Sequential(*layers, nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh()).cuda()

    def loss_of() -> Any:
        return model(torch.randn(64, 100, 1, 1, device="cuda")).float().square().mean()

    return model, training(model, loss_of, autocast=BF16)
