"""A Llama-like model and the ways to split it over ranks, for any engine or none.

`fake_distributed.py` runs them, one way and one rank in a process. Sees: torch. Knows nothing of
estimates and tables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

STEPS = 3


@dataclass(frozen=True)
class Size:
    """How large a model is. The vocabulary is odd so that shards are uneven."""

    width: int = 512
    layers: int = 4
    heads: int = 8
    inner: int = 1376
    vocabulary: int = 4001
    batch: int = 4
    tokens: int = 256


SIZE = Size()


class Norm(nn.Module):
    """RMS norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Any) -> Any:
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5)
        return (x.float() * scale).type_as(x) * self.weight


class Attention(nn.Module):
    """Attention of all heads that this rank has."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.head = size.width // size.heads
        self.q = nn.Linear(size.width, size.width, bias=False)
        self.k = nn.Linear(size.width, size.width, bias=False)
        self.v = nn.Linear(size.width, size.width, bias=False)
        self.o = nn.Linear(size.width, size.width, bias=False)

    def forward(self, x: Any) -> Any:
        batch, tokens, _ = x.shape
        q, k, v = (
            layer(x).view(batch, tokens, -1, self.head).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(found.transpose(1, 2).reshape(batch, tokens, -1))


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.gate = nn.Linear(size.width, size.inner, bias=False)
        self.up = nn.Linear(size.width, size.inner, bias=False)
        self.down = nn.Linear(size.inner, size.width, bias=False)

    def forward(self, x: Any) -> Any:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """One layer."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.attention_norm = Norm(size.width)
        self.attention = Attention(size)
        self.feed_norm = Norm(size.width)
        self.feed = FeedForward(size)

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed(self.feed_norm(x))


class Llama(nn.Module):
    """The whole model, or the stage of it that has these layers."""

    def __init__(self, size: Size, stage: int = 0, stages: int = 1) -> None:
        super().__init__()
        is_first, is_last = stage == 0, stage == stages - 1
        share = size.layers // stages
        self.embedding = nn.Embedding(size.vocabulary, size.width) if is_first else None
        self.blocks = nn.ModuleList(Block(size) for _ in range(share))
        self.norm = Norm(size.width) if is_last else None
        self.head = nn.Linear(size.width, size.vocabulary, bias=False) if is_last else None

    def forward(self, x: Any) -> Any:
        if self.embedding is not None:
            x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        if self.norm is not None and self.head is not None:
            x = self.head(self.norm(x))
        return x


def loss_of(logits: Any, labels: Any) -> Any:
    """Cross entropy."""
    return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten())


def batch_of(device: Any, batch: int) -> tuple[Any, Any]:
    """Tokens and what should follow them."""
    shape = (batch, SIZE.tokens)
    return (
        torch.zeros(shape, dtype=torch.long, device=device),
        torch.zeros(shape, dtype=torch.long, device=device),
    )


class Steps:
    """Trains, and records the allocated bytes after each step."""

    def __init__(self, device: Any, level: Callable[[], tuple[int, int]]) -> None:
        self.device, self._level = device, level
        self.after: list[int] = []
        self.kept: Any = None

    def train(self, model: Any, **options: Any) -> None:
        """Steps of the usual kind."""
        optimizer = torch.optim.AdamW(model.parameters(), **options)
        for _ in range(STEPS):
            optimizer.zero_grad()
            tokens, labels = batch_of(self.device, SIZE.batch)
            loss_of(model(tokens), labels).backward()
            self.end_step(model, optimizer)

    def end_step(self, model: Any, optimizer: Any) -> None:
        """The optimizer's part, and what is left of the step: weights, gradients and states."""
        optimizer.step()
        self.after.append(self._level()[0])
        self.kept = (model, optimizer)


def begin(device: Any) -> None:
    """The group that every program begins with."""
    backend = "gloo" if device.type == "cpu" else "cpu:gloo,cuda:nccl"
    dist.init_process_group(backend)


def _fully_shard() -> Any:
    try:
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        from torch.distributed._composable.fsdp import fully_shard
    return fully_shard


def _model(device: Any, dtype: Any = None, stage: int = 0, stages: int = 1) -> Any:
    with device:
        return Llama(SIZE, stage, stages).to(dtype or torch.float32)


def _flat_mesh(device: Any) -> Any:
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(device.type, (dist.get_world_size(),))


def ddp(steps: Steps, **options: Any) -> None:
    """Replicas."""
    device = steps.device
    ids = [device.index] if device.type == "cuda" else None
    model = nn.parallel.DistributedDataParallel(_model(device), device_ids=ids, **options)
    steps.train(model)


def ddp_views(steps: Steps) -> None:
    """Replicas whose gradients are views of the buckets."""
    ddp(steps, gradient_as_bucket_view=True, bucket_cap_mb=4)


def ddp_unused(steps: Steps) -> None:
    """Replicas that look for unused parameters."""
    ddp(steps, find_unused_parameters=True)


def ddp_static(steps: Steps) -> None:
    """Replicas of a graph that does not change."""
    ddp(steps, static_graph=True)


def ddp_no_sync(steps: Steps) -> None:
    """Replicas that accumulate before they reduce."""
    device = steps.device
    ids = [device.index] if device.type == "cuda" else None
    model = nn.parallel.DistributedDataParallel(_model(device), device_ids=ids)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad()
        with model.no_sync():
            tokens, labels = batch_of(device, SIZE.batch)
            loss_of(model(tokens), labels).backward()
        tokens, labels = batch_of(device, SIZE.batch)
        loss_of(model(tokens), labels).backward()
        steps.end_step(model, optimizer)


def fsdp2(steps: Steps, dtype: Any = None, **options: Any) -> None:
    """Shards of every layer."""
    fully_shard = _fully_shard()
    if steps.device.type == "cpu":
        options.setdefault("mesh", _flat_mesh(steps.device))
    model = _model(steps.device, dtype)
    for block in model.blocks:
        fully_shard(block, **options)
    fully_shard(model, **options)
    steps.train(model)


def fsdp2_keep(steps: Steps) -> None:
    """Shards that stay whole after the forward pass."""
    fsdp2(steps, reshard_after_forward=False)


def fsdp2_mixed(steps: Steps) -> None:
    """Shards in float32 that are used in bfloat16."""
    try:
        from torch.distributed.fsdp import MixedPrecisionPolicy
    except ImportError:
        from torch.distributed._composable.fsdp import MixedPrecisionPolicy
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    fsdp2(steps, mp_policy=policy)


def hsdp(steps: Steps) -> None:
    """Shards within two, replicas beyond."""
    from torch.distributed.device_mesh import init_device_mesh

    shape = (dist.get_world_size() // 2, 2)
    mesh = init_device_mesh(steps.device.type, shape, mesh_dim_names=("replicate", "shard"))
    fsdp2(steps, mesh=mesh)


def fsdp1(steps: Steps) -> None:
    """The older class that shards flat parameters."""
    import functools

    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    wrap = functools.partial(FullyShardedDataParallel, auto_wrap_policy=ModuleWrapPolicy({Block}))
    steps.train(wrap(_model(steps.device), device_id=steps.device, use_orig_params=True))


def tp(steps: Steps) -> None:
    """Heads and inner features over all ranks."""
    from torch.distributed.tensor import parallel

    mesh = _flat_mesh(steps.device)
    model = _model(steps.device)
    column, row = parallel.ColwiseParallel, parallel.RowwiseParallel
    plan: dict[str, Any] = {}
    for name in ("attention.q", "attention.k", "attention.v", "feed.gate", "feed.up"):
        plan[name] = column()
    for name in ("attention.o", "feed.down"):
        plan[name] = row()
    for block in model.blocks:
        parallel.parallelize_module(block, mesh, plan)
    # torch cannot step over a list of both kinds of tensors at once.
    steps.train(model, foreach=False)


def _pipeline(steps: Steps, schedule: str) -> None:
    from torch.distributed import pipelining

    rank, world = dist.get_rank(), dist.get_world_size()
    model = _model(steps.device, None, rank, world)
    micro = SIZE.batch // world
    hidden = torch.empty(micro, SIZE.tokens, SIZE.width, device="meta", requires_grad=True)
    words = torch.empty(micro, SIZE.tokens, dtype=torch.long, device="meta")
    logits = torch.empty(micro, SIZE.tokens, SIZE.vocabulary, device="meta", requires_grad=True)
    stage = pipelining.PipelineStage(
        model,
        rank,
        world,
        steps.device,
        input_args=(words if rank == 0 else hidden,),
        output_args=(logits if rank == world - 1 else hidden,),
    )
    runs = getattr(pipelining, schedule)(stage, world, loss_fn=loss_of)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad()
        tokens, labels = batch_of(steps.device, SIZE.batch)
        if rank == 0:
            runs.step(tokens)
        elif rank == world - 1:
            runs.step(target=labels)
        else:
            runs.step()
        steps.end_step(model, optimizer)


def gpipe(steps: Steps) -> None:
    """A stage of a pipeline: all forward, then all backward."""
    _pipeline(steps, "ScheduleGPipe")


def one_f_one_b(steps: Steps) -> None:
    """A stage of a pipeline: one forward, one backward."""
    _pipeline(steps, "Schedule1F1B")


WAYS: dict[str, Callable[[Steps], None]] = {
    way.__name__: way
    for way in (
        ddp, ddp_views, ddp_unused, ddp_static, ddp_no_sync, fsdp2, fsdp2_keep, fsdp2_mixed, hsdp,
        fsdp1, tp, gpipe, one_f_one_b,
    )
}  # fmt: skip


def run(way: str, device: Any, level: Callable[[], tuple[int, int]]) -> Steps:
    """One way on a device; what it returns keeps the model and its optimizer."""
    begin(device)
    steps = Steps(device, level)
    WAYS[way](steps)
    return steps
