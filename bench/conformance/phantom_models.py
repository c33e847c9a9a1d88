"""Models for `phantom_h200.py` to which no rule of the phantom was fitted.

Each case builds `(model, step)` on CUDA; `step()` is one training step, or one of inference. They
are chosen to differ: convolutions of all kinds, attention with masks and without, experts that read
their routing back, recurrent nets, autocast, checkpoints, sparse gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Step = Callable[[], None]
CASES: dict[str, Callable[[], tuple[Any, Step]]] = {}


def case(build: Callable[[], tuple[Any, Step]]) -> Callable[[], tuple[Any, Step]]:
    """Register a case under its name."""
    CASES[build.__name__] = build
    return build


def training(
    model: Any,
    loss_of: Callable[[], Any],
    optimizer: Any = None,
    autocast: Any = None,
    scaler: Any = None,
    clip: float = 0.0,
    accumulate: int = 1,
) -> Step:
    """One step: forward, backward, optimizer."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), 1e-4)

    def step() -> None:
        optimizer.zero_grad()
        for _ in range(accumulate):
            with torch.autocast("cuda", autocast) if autocast else nullcontext():
                loss = loss_of()
            (scaler.scale(loss) if scaler else loss).backward()
        if scaler:
            scaler.unscale_(optimizer)
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()

    return step


def images(batch: int, size: int = 224, channels: int = 3, classes: int = 1000) -> Any:
    x = torch.randn(batch, channels, size, size, device="cuda")
    return x, torch.randint(0, classes, (batch,), device="cuda")


def vision(name: str, batch: int, size: int = 224, **options: Any) -> tuple[Any, Step]:
    import torchvision

    is_channels_last = options.pop("channels_last", False)
    with torch.device("cuda"):
        model = getattr(torchvision.models, name)(weights=None)
    if is_channels_last:
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    def loss_of() -> Any:
        x, y = images(batch, size)
        if is_channels_last:
            x = x.to(memory_format=torch.channels_last)
        out = model(x)
        return F.cross_entropy(out if isinstance(out, torch.Tensor) else out.logits, y)

    return model, training(model, loss_of, optimizer, **options)


@case
def resnet34() -> tuple[Any, Step]:
    return vision("resnet34", 16)


@case
def resnet101_fp16_channels_last() -> tuple[Any, Step]:
    scaler = torch.amp.GradScaler("cuda")
    return vision("resnet101", 32, autocast=torch.float16, scaler=scaler, channels_last=True)


@case
def mobilenet_v3() -> tuple[Any, Step]:
    return vision("mobilenet_v3_large", 64)


@case
def efficientnet_bf16() -> tuple[Any, Step]:
    return vision("efficientnet_b0", 32, autocast=torch.bfloat16)


@case
def convnext() -> tuple[Any, Step]:
    return vision("convnext_tiny", 16)


@case
def vgg_bn() -> tuple[Any, Step]:
    return vision("vgg11_bn", 16)


@case
def densenet() -> tuple[Any, Step]:
    return vision("densenet121", 16)


@case
def vit() -> tuple[Any, Step]:
    return vision("vit_b_16", 16, autocast=torch.bfloat16)


@case
def swin() -> tuple[Any, Step]:
    return vision("swin_t", 16)


class UNet(nn.Module):
    """Down, up, and across: with transposed convolutions and group norms."""

    def __init__(self, widths: tuple[int, ...] = (32, 64, 128, 256)) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, widths[0], 3, padding=1)
        pairs = list(pairwise(widths))
        self.down = nn.ModuleList(self.block(a, b, 2) for a, b in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 4, 2, 1) for a, b in reversed(pairs))
        self.mix = nn.ModuleList(self.block(2 * a, a, 1) for a, _ in reversed(pairs))
        self.last = nn.Conv2d(widths[0], 3, 1)

    @staticmethod
    def block(a: int, b: int, stride: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(a, b, 3, stride, 1), nn.GroupNorm(8, b), nn.SiLU())

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        kept = []
        for layer in self.down:
            kept.append(x)
            x = layer(x)
        for up, mix in zip(self.up, self.mix, strict=True):
            x = mix(torch.cat([up(x), kept.pop()], 1))
        return self.last(x)


@case
def unet() -> tuple[Any, Step]:
    model = UNet().cuda()
    return model, training(
        model,
        lambda: F.mse_loss(model(images(8, 128)[0]), torch.zeros(8, 3, 128, 128, device="cuda")),
    )


@case
def conv1d_and_3d() -> tuple[Any, Step]:
    flat = nn.Sequential(
        nn.Conv1d(8, 64, 5, padding=2), nn.BatchNorm1d(64), nn.ReLU(), nn.Conv1d(64, 8, 3)
    )
    deep = nn.Sequential(
        nn.Conv3d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(16, 8, 3)
    )
    model = nn.ModuleList([flat, deep]).cuda()

    def loss_of() -> Any:
        one = flat(torch.randn(16, 8, 4096, device="cuda")).square().mean()
        return one + deep(torch.randn(4, 1, 32, 32, 32, device="cuda")).square().mean()

    return model, training(model, loss_of)


@case
def gru_bidirectional() -> tuple[Any, Step]:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(5000, 256)
            self.rnn = nn.GRU(256, 256, 2, batch_first=True, bidirectional=True)
            self.out = nn.Linear(512, 40)

        def forward(self, x: Any) -> Any:
            return self.out(self.rnn(self.embed(x))[0])

    model = Tagger().cuda()

    def loss_of() -> Any:
        x = torch.randint(0, 5000, (32, 100), device="cuda")
        return F.cross_entropy(model(x).flatten(0, 1), x.flatten() % 40)

    return model, training(model, loss_of)


def language_model(
    name: str, batch: int, length: int, dtype: Any = torch.float32, **config: Any
) -> Any:
    import transformers

    options = {"checkpoints": False, "padded": False, **config.pop("options", {})}
    configuration = getattr(transformers, name + "Config")(**config)
    kind = options.get("kind", "ForCausalLM")
    name = {"GPT2": "GPT2LMHeadModel"}.get(name, name + kind)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    with torch.device("cuda"):
        model = getattr(transformers, name)(configuration)
    torch.set_default_dtype(before)
    model.train()
    if options["checkpoints"]:
        model.gradient_checkpointing_enable()
    vocabulary = configuration.vocab_size

    def loss_of() -> Any:
        ids = torch.randint(0, vocabulary, (batch, length), device="cuda")
        inputs = {"input_ids": ids, "labels": ids}
        if options["padded"]:
            lengths = torch.arange(batch, device="cuda") * length // (2 * batch) + length // 2
            inputs["attention_mask"] = (
                torch.arange(length, device="cuda")[None] < lengths[:, None]
            ).long()
        return model(**inputs).loss

    return model, loss_of


@case
def gpt_neox_padded() -> tuple[Any, Step]:
    model, loss_of = language_model(
        "GPTNeoX", 4, 512, hidden_size=512, num_hidden_layers=6, num_attention_heads=8,
        intermediate_size=2048, vocab_size=50432, use_cache=False, options={"padded": True},
    )  # fmt: skip
    return model, training(model, loss_of, clip=1.0)


@case
def qwen2_bf16_accumulated() -> tuple[Any, Step]:
    model, loss_of = language_model(
        "Qwen2", 2, 1024, torch.bfloat16, hidden_size=896, num_hidden_layers=8,
        num_attention_heads=14, num_key_value_heads=2, intermediate_size=4864, vocab_size=151936,
        use_cache=False, tie_word_embeddings=True,
    )  # fmt: skip
    return model, training(model, loss_of, accumulate=2, clip=1.0)


@case
def gemma2_eager_checkpoints() -> tuple[Any, Step]:
    model, loss_of = language_model(
        "Gemma2", 2, 512, torch.bfloat16, hidden_size=768, num_hidden_layers=6,
        num_attention_heads=8, num_key_value_heads=4, head_dim=96, intermediate_size=3072,
        vocab_size=32000, use_cache=False, attn_implementation="eager",
        options={"checkpoints": True},
    )  # fmt: skip
    return model, training(model, loss_of, torch.optim.AdamW(model.parameters(), fused=True))


@case
def mixtral_experts() -> tuple[Any, Step]:
    model, loss_of = language_model(
        "Mixtral", 2, 512, torch.bfloat16, hidden_size=512, num_hidden_layers=4,
        num_attention_heads=8, num_key_value_heads=4, intermediate_size=1024, vocab_size=32000,
        num_local_experts=4, use_cache=False,
    )  # fmt: skip
    return model, training(model, loss_of)


@case
def distilbert_classifier_fp16() -> tuple[Any, Step]:
    import transformers

    configuration = transformers.DistilBertConfig(num_labels=3)
    with torch.device("cuda"):
        model = transformers.DistilBertForSequenceClassification(configuration)
    model.train()

    def loss_of() -> Any:
        ids = torch.randint(5, 30000, (16, 128), device="cuda")
        mask = (torch.arange(128, device="cuda") < 100).long().expand(16, 128).contiguous()
        labels = torch.randint(0, 3, (16,), device="cuda")
        return model(input_ids=ids, attention_mask=mask, labels=labels).loss

    scaler = torch.amp.GradScaler("cuda")
    return model, training(model, loss_of, autocast=torch.float16, scaler=scaler)


@case
def whisper() -> tuple[Any, Step]:
    import transformers

    configuration = transformers.WhisperConfig(
        d_model=384, encoder_layers=4, decoder_layers=4, encoder_attention_heads=6,
        decoder_attention_heads=6, encoder_ffn_dim=1536, decoder_ffn_dim=1536,
    )  # fmt: skip
    with torch.device("cuda"):
        model = transformers.WhisperForConditionalGeneration(configuration)
    model.train()

    def loss_of() -> Any:
        sound = torch.randn(4, 80, 3000, device="cuda")
        labels = torch.randint(0, 50000, (4, 100), device="cuda")
        return model(input_features=sound, labels=labels).loss

    return model, training(model, loss_of)


@case
def transformer_encoder() -> tuple[Any, Step]:
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    model = nn.TransformerEncoder(layer, 4).cuda()
    mask = nn.Transformer.generate_square_subsequent_mask(256, device="cuda")
    return model, training(
        model, lambda: model(torch.randn(8, 256, 512, device="cuda"), mask=mask).square().mean()
    )


@case
def embedding_bag_sparse() -> tuple[Any, Step]:
    table = nn.EmbeddingBag(100_000, 64, mode="sum", sparse=True).cuda()
    head = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()
    model = nn.ModuleList([table, head])
    optimizers = [torch.optim.SparseAdam(table.parameters()), torch.optim.Adam(head.parameters())]

    def step() -> None:
        ids = torch.randint(0, 100_000, (4096,), device="cuda")
        offsets = torch.arange(0, 4096, 8, device="cuda")
        for optimizer in optimizers:
            optimizer.zero_grad()
        F.softplus(head(table(ids, offsets))).mean().backward()
        for optimizer in optimizers:
            optimizer.step()

    return model, step


@case
def linear_algebra() -> tuple[Any, Step]:
    model = nn.Linear(256, 256, bias=False, device="cuda")

    def loss_of() -> Any:
        a = model(torch.randn(8, 256, 256, device="cuda"))
        b = a @ a.mT + torch.eye(256, device="cuda")
        spectrum = torch.fft.rfft(a, dim=-1).abs().mean()
        return torch.linalg.cholesky(b).mean() + torch.linalg.qr(a)[0].mean() + spectrum

    return model, training(model, loss_of)


@case
def generation_with_cache() -> tuple[Any, Step]:
    model, _ = language_model(
        "Llama", 1, 8, torch.bfloat16, hidden_size=1024, num_hidden_layers=8,
        num_attention_heads=16, num_key_value_heads=4, intermediate_size=4096, vocab_size=32000,
    )  # fmt: skip
    model.eval()

    def step() -> None:
        ids = torch.randint(0, 32000, (2, 64), device="cuda")
        with torch.no_grad():
            model.generate(ids, max_new_tokens=16, do_sample=False, eos_token_id=None)

    return model, step


@case
def sorting_and_sampling() -> tuple[Any, Step]:
    def step() -> None:
        x = torch.randn(1 << 20, device="cuda")
        values, order = x.sort()
        top = x.view(1024, 1024).topk(10).indices
        drawn = torch.multinomial(torch.rand(64, 1000, device="cuda"), 5)
        ids = torch.randint(0, 1000, (100_000,), device="cuda")
        counts = torch.zeros(1000, device="cuda").scatter_add_(0, ids, torch.ones_like(ids).float())
        (values.cumsum(0), order, top, drawn, counts, torch.histc(x, 100), x.median(), x.std())

    return None, step
