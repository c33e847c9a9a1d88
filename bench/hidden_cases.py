"""Programs whose operators are looked into: what training and serving call, at sizes that matter.

Each case is a name and a function without arguments. Sees: torch on a CUDA device, real or not.
Knows nothing of how calls are watched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

Case = tuple[str, Callable[[], Any]]
TYPES = (torch.float32, torch.bfloat16)


def real(*sizes: int, dtype: torch.dtype = torch.float32, grad: bool = True) -> torch.Tensor:
    """Numbers; values are void anyway."""
    return torch.empty(*sizes, device="cuda", dtype=dtype).requires_grad_(grad)


def whole(most: int, *sizes: int) -> torch.Tensor:
    """Whole numbers below `most`."""
    return torch.randint(0, most, sizes, device="cuda")


def channels_last(tensor: torch.Tensor, wanted: bool = True) -> torch.Tensor:
    """The same sizes with channels last."""
    kind = torch.channels_last if wanted else torch.contiguous_format
    return tensor.detach().contiguous(memory_format=kind).requires_grad_()


def back(result: Any) -> None:
    """Backward with a gradient that lies side by side."""
    parts = result if isinstance(result, (tuple, list)) else [result]
    parts = [part for part in parts if part.requires_grad]
    torch.autograd.backward(parts, [torch.empty_like(part) for part in parts])


def expanded(result: torch.Tensor) -> None:
    """Backward with the gradient of a sum, which is one number for all."""
    result.sum().backward()


def products() -> Iterator[Case]:
    for t in TYPES:
        yield "mm", lambda t=t: back(real(2048, 1024, dtype=t) @ real(1024, 2048, dtype=t))
        yield (
            "mm expanded",
            lambda t=t: expanded(real(2048, 1024, dtype=t) @ real(1024, 512, dtype=t)),
        )
        yield (
            "mm strided",
            lambda t=t: back(real(2048, 2048, dtype=t)[::2, ::2] @ real(1024, 512, dtype=t)),
        )
        for end in (back, expanded):
            yield (
                "linear",
                lambda t=t, end=end: end(
                    F.linear(
                        real(8, 1024, 768, dtype=t), real(3072, 768, dtype=t), real(3072, dtype=t)
                    )
                ),
            )
            yield (
                "bmm",
                lambda t=t, end=end: end(
                    torch.bmm(real(96, 512, 64, dtype=t), real(96, 64, 512, dtype=t))
                ),
            )
        yield (
            "baddbmm",
            lambda t=t: back(
                torch.baddbmm(
                    real(16, 512, 512, dtype=t),
                    real(16, 512, 64, dtype=t),
                    real(16, 64, 512, dtype=t),
                )
            ),
        )


def attend(backend: SDPBackend, query: Any, key: Any, t: torch.dtype, **options: Any) -> None:
    with sdpa_kernel(backend):
        q = real(*query, dtype=t)
        k, v = (real(*key, dtype=t) for _ in range(2))
        back(F.scaled_dot_product_attention(q, k, v, **options))


def attention() -> Iterator[Case]:
    half = torch.bfloat16
    flash, efficient = SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION
    cudnn = SDPBackend.CUDNN_ATTENTION
    for head in (40, 64, 80, 128, 192):
        size = (4, 16, 1000, head)
        yield "flash", lambda s=size: attend(flash, s, s, half)
        for t in TYPES:
            yield "efficient", lambda s=size, t=t: attend(efficient, s, s, t)
    for head in (64, 96, 128):
        size = (2, 16, 1000, head)
        yield "cudnn", lambda s=size: attend(cudnn, s, s, half, is_causal=True)
    for backend in (flash, cudnn):
        yield (
            "shared keys",
            lambda b=backend: attend(b, (4, 16, 1024, 64), (4, 4, 1024, 64), half, enable_gqa=True),
        )
    for length, keys in ((1, 4096), (1, 8192), (16, 2048), (256, 4096)):
        yield (
            "flash, few queries",
            lambda n=length, k=keys: attend(flash, (1, 32, n, 128), (1, 32, k, 128), half),
        )
    yield "cross", lambda: attend(efficient, (4, 16, 4096, 40), (4, 16, 77, 40), half)
    yield "many heads", lambda: attend(efficient, (16, 32, 256, 192), (16, 32, 256, 192), half)


def embeddings() -> Iterator[Case]:
    for t in TYPES:
        for count in (2048, 8192, 65_536):
            for rows, width in ((50_257, 768), (1000, 64)):
                yield (
                    "embedding",
                    lambda t=t, n=count, v=rows, e=width: back(
                        F.embedding(whole(v, n), real(v, e, dtype=t))
                    ),
                )
    yield (
        "bag",
        lambda: back(
            F.embedding_bag(
                whole(100_000, 65_536),
                real(100_000, 64),
                torch.arange(0, 65_536, 32, device="cuda"),
                mode="sum",
            )
        ),
    )


def norms() -> Iterator[Case]:
    for t in TYPES:
        for rows, columns in ((8192, 768), (131_072, 768), (200_000, 256), (131_072, 4096)):
            yield (
                "layer norm",
                lambda t=t, r=rows, c=columns: back(
                    F.layer_norm(real(r, c, dtype=t), (c,), real(c, dtype=t), real(c, dtype=t))
                ),
            )
            yield (
                "rms norm",
                lambda t=t, r=rows, c=columns: back(
                    F.rms_norm(real(r, c, dtype=t), (c,), real(c, dtype=t))
                ),
            )
        yield (
            "layer norm of a transposed input",
            lambda t=t: expanded(
                F.layer_norm(
                    real(8, 768, 1024, dtype=t).transpose(1, 2), (768,), real(768, dtype=t)
                )
            ),
        )
        for last in (False, True):
            yield (
                "group norm",
                lambda t=t, last=last: back(
                    F.group_norm(
                        channels_last(real(16, 320, 64, 64, dtype=t), last),
                        32,
                        real(320, dtype=t),
                        real(320, dtype=t),
                    )
                ),
            )
            yield (
                "batch norm",
                lambda t=t, last=last: back(
                    F.batch_norm(
                        channels_last(real(16, 256, 56, 56, dtype=t), last),
                        real(256, grad=False),
                        real(256, grad=False),
                        real(256),
                        real(256),
                        training=True,
                    )
                ),
            )


def losses() -> Iterator[Case]:
    for t in TYPES:
        yield (
            "cross entropy",
            lambda t=t: F.cross_entropy(
                real(8192, 50_257, dtype=t), whole(50_257, 8192)
            ).backward(),
        )
        for end in (back, expanded):
            yield "softmax", lambda t=t, end=end: end(F.softmax(real(64, 1024, 512, dtype=t), -1))
        pair = lambda t=t: (real(4096, 4096, dtype=t), real(4096, 4096, dtype=t, grad=False))  # noqa: E731
        yield "mse", lambda pair=pair: F.mse_loss(*pair()).backward()
        yield "l1", lambda pair=pair: F.l1_loss(*pair()).backward()
        yield "smooth l1", lambda pair=pair: F.smooth_l1_loss(*pair()).backward()
        yield "bce", lambda pair=pair: F.binary_cross_entropy_with_logits(*pair()).backward()
        yield "kl", lambda pair=pair: F.kl_div(*pair(), reduction="batchmean").backward()


def elementwise() -> Iterator[Case]:
    for t in TYPES:
        one = lambda t=t: real(4096, 4096, dtype=t)  # noqa: E731
        for f in (F.gelu, F.silu, F.relu, torch.tanh, torch.sigmoid, F.glu, torch.triu, torch.exp):
            yield f.__name__, lambda f=f, one=one: back(f(one()))
        yield "dropout", lambda one=one: back(F.dropout(one(), 0.1))
        yield "where", lambda one=one: back(torch.where(one() > 0, one(), one()))
        yield "masked fill", lambda one=one: back(one().masked_fill(one() > 0, 0.0))
        yield "add, mul, div", lambda one=one: back((one() + one()) * one() / one())
        yield "cat", lambda one=one: back(torch.cat([one() for _ in range(4)]))
        yield "stack", lambda one=one: back(torch.stack([one() for _ in range(4)], 1))
        yield "to", lambda one=one: back(one().to(torch.float16))
        yield "roll", lambda t=t: back(torch.roll(real(16, 56, 56, 128, dtype=t), (3, 3), (1, 2)))
        yield "contiguous", lambda one=one: back(one().t().contiguous())
        yield "repeat", lambda one=one: back(one().repeat(2, 1))
        yield "flip", lambda one=one: back(one().flip(0))


def reductions() -> Iterator[Case]:
    for t in TYPES:
        for sizes, dims in (
            ((8192, 768), (0,)),
            ((65_536, 256), (0,)),
            ((32_768, 4096), (0,)),
            ((4, 1024, 3072), (0, 1)),
            ((8, 2048, 2048), (1,)),
            ((8192, 768), (1,)),
            ((16, 64, 112, 112), (0, 2, 3)),
            ((2048, 50_257), (0,)),
            ((64, 1 << 20), (1,)),
            ((1 << 26,), (0,)),
        ):
            one = lambda t=t, s=sizes: real(*s, dtype=t, grad=False)  # noqa: E731
            for f in (torch.sum, torch.mean, torch.amax, torch.std, torch.logsumexp):
                yield f.__name__, lambda f=f, one=one, d=dims: f(one(), d)
            yield "norm", lambda one=one, d=dims: torch.linalg.vector_norm(one(), 2, d)
            for f in (torch.argmax, torch.max):
                yield f.__name__, lambda f=f, one=one, d=dims: f(one(), d[-1])
        last = lambda t=t: channels_last(real(32, 64, 112, 112, dtype=t))  # noqa: E731
        yield "mean over pixels", lambda last=last: back(last().mean((2, 3)))


def sorting() -> Iterator[Case]:
    for t in TYPES:
        for sizes in (
            (1 << 22,),
            (2048, 4096),
            (32_768, 128),
            (1 << 19, 16),
            (64, 1 << 16),
            (8, 65_536),
        ):
            one = lambda t=t, s=sizes: real(*s, dtype=t, grad=False)  # noqa: E731
            yield "sort", lambda one=one: torch.sort(one())
            yield "argsort", lambda one=one: torch.argsort(one(), dim=0, stable=True)
            yield "topk", lambda one=one, s=sizes: torch.topk(one(), min(64, s[-1] // 2))
            yield "cumsum", lambda one=one: torch.cumsum(one(), -1)
        yield "median", lambda t=t: torch.median(real(1 << 21, dtype=t, grad=False))
        for samples in (1, 8):
            yield (
                "multinomial",
                lambda t=t, n=samples: torch.multinomial(
                    real(512, 50_257, dtype=t, grad=False), n, replacement=True
                ),
            )
    yield "randperm", lambda: torch.randperm(1 << 20, device="cuda")
    yield "unique", lambda: torch.unique(whole(1000, 1 << 18))
    yield "unique inverse", lambda: torch.unique(whole(1000, 1 << 18), return_inverse=True)


def indexing() -> Iterator[Case]:
    for t in TYPES:
        yield "index", lambda t=t: back(real(100_000, 256, dtype=t)[whole(100_000, 65_536)])
        yield (
            "index two",
            lambda t=t: back(real(512, 512, 64, dtype=t)[whole(512, 65_536), whole(512, 65_536)]),
        )
        yield (
            "index select",
            lambda t=t: back(real(100_000, 256, dtype=t).index_select(0, whole(100_000, 65_536))),
        )
        yield (
            "gather",
            lambda t=t: back(real(4096, 4096, dtype=t).gather(1, whole(4096, 4096, 128))),
        )
        yield (
            "scatter add",
            lambda t=t: back(
                real(4096, 4096, dtype=t).scatter_add(
                    0, whole(4096, 128, 4096), real(128, 4096, dtype=t)
                )
            ),
        )
        yield (
            "index add",
            lambda t=t: back(
                real(8192, 1024, dtype=t).index_add(
                    0, whole(8192, 16_384), real(16_384, 1024, dtype=t)
                )
            ),
        )
        yield (
            "index put of one value",
            lambda t=t: real(100_000, 64, dtype=t, grad=False).index_put_(
                (whole(100_000, 65_536),), real(64, dtype=t, grad=False), accumulate=True
            ),
        )


def images() -> Iterator[Case]:
    for t in TYPES:
        for last in (False, True):
            one = lambda t=t, last=last: channels_last(real(32, 64, 112, 112, dtype=t), last)  # noqa: E731
            yield "max pool", lambda one=one: back(F.max_pool2d(one(), 3, 2, 1))
            yield "avg pool", lambda one=one: expanded(F.avg_pool2d(one(), 3, 2, 1))
            yield "adaptive pool", lambda one=one: back(F.adaptive_avg_pool2d(one(), 7))
            for mode in ("nearest", "bilinear"):
                yield (
                    mode,
                    lambda one=one, m=mode: back(F.interpolate(one(), scale_factor=2, mode=m)),
                )
        yield "pad", lambda t=t: back(F.pad(real(16, 64, 64, 64, dtype=t), (1, 1, 1, 1), "reflect"))
        yield "unfold", lambda t=t: back(F.unfold(real(16, 64, 64, 64, dtype=t), 3))
        yield (
            "grid sample",
            lambda t=t: back(
                F.grid_sample(
                    real(16, 64, 64, 64, dtype=t), real(16, 64, 64, 2, dtype=t), align_corners=False
                )
            ),
        )
    yield "fft", lambda: back(torch.fft.fft(real(64, 65_536)).abs())
    yield "rfft2", lambda: back(torch.fft.irfft2(torch.fft.rfft2(real(64, 256, 256))))


def recurrent() -> Iterator[Case]:
    for t in TYPES:
        for kind in (nn.LSTM, nn.GRU, nn.RNN):
            for both in (False, True):
                net = lambda t=t, k=kind, b=both: k(  # noqa: E731
                    512, 512, 2, batch_first=True, dropout=0.1, bidirectional=b
                ).to("cuda", t)
                yield (
                    kind.__name__,
                    lambda net=net, t=t: back(net()(real(32, 256, 512, dtype=t))[0]),
                )


def optimizers() -> Iterator[Case]:
    sizes = [(50_257, 768), *[(768, 768), (3072, 768), (768,)] * 8]
    for t in TYPES:

        def parameters(t: torch.dtype = t) -> list[torch.Tensor]:
            made = [real(*size, dtype=t) for size in sizes]
            for one in made:
                one.grad = torch.empty_like(one)
            return made

        for kind in (torch.optim.AdamW, torch.optim.SGD):
            for fused in (False, True):
                options = {"fused": fused, "foreach": not fused, "lr": 0.1}
                yield kind.__name__, lambda k=kind, o=options, p=parameters: k(p(), **o).step()
        yield "clip", lambda p=parameters: nn.utils.clip_grad_norm_(p(), 1.0)


FAMILIES = (
    products,
    attention,
    embeddings,
    norms,
    losses,
    elementwise,
    reductions,
    sorting,
    indexing,
    images,
    recurrent,
    optimizers,
)
