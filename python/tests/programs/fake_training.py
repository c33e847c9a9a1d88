"""Cases about training: optimizers, precisions, checkpoints, and tensors of other kinds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fake_frame import CASES, Mark, batch, case, case_of, floats, mlp

# Training.


def trained(mark: Mark, model: Any, optimizer: Any, steps: int = 2, **options: Any) -> None:
    """Steps of training, with a mark after each part."""
    for _ in range(steps):
        loss = model(batch(**options)).square().mean()
        mark()
        loss.backward()
        del loss
        mark()
        optimizer.step()
        mark()
        optimizer.zero_grad()
        mark()


def optimizers() -> dict[str, Callable[[Any], Any]]:
    """Optimizers, each in the ways that it has."""
    from torch import optim

    return {
        "adamw": lambda p: optim.AdamW(p),
        "adamw_for_loop": lambda p: optim.AdamW(p, foreach=False),
        "adamw_foreach": lambda p: optim.AdamW(p, foreach=True),
        "adamw_fused": lambda p: optim.AdamW(p, fused=True),
        "adamw_capturable": lambda p: optim.AdamW(p, capturable=True),
        "adam_amsgrad": lambda p: optim.Adam(p, amsgrad=True),
        "sgd_momentum": lambda p: optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.1),
        "sgd_fused": lambda p: optim.SGD(p, 0.1, momentum=0.9, fused=True),
        "adagrad": lambda p: optim.Adagrad(p),
        "rmsprop": lambda p: optim.RMSprop(p, momentum=0.9, centered=True),
        "adadelta": lambda p: optim.Adadelta(p),
        "nadam": lambda p: optim.NAdam(p),
        "rprop": lambda p: optim.Rprop(p),
    }


def _optimizer_case(name: str) -> None:
    def run(mark: Mark) -> None:
        model = mlp()
        trained(mark, model, optimizers()[name](list(model.parameters())))

    CASES[f"optimizer_{name}"] = run


for _name in (
    "adamw", "adamw_for_loop", "adamw_foreach", "adamw_fused", "adamw_capturable", "adam_amsgrad",
    "sgd_momentum", "sgd_fused", "adagrad", "rmsprop", "adadelta", "nadam", "rprop",
):  # fmt: skip
    _optimizer_case(_name)


@case
def gradients_are_clipped(mark: Mark) -> None:
    import torch

    model = mlp()
    model(batch()).sum().backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    mark()
    torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
    mark()
    del norm


@case
def steps_with_autocast(mark: Mark) -> None:
    import torch

    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(batch()).float().square().mean()
            mark()
        mark()
        loss.backward()
        del loss
        mark()
        optimizer.step()
        optimizer.zero_grad()
        mark()


@case
def steps_with_a_scaler(mark: Mark) -> None:
    import torch

    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(2):
        with torch.autocast("cuda", torch.float16):
            loss = model(batch()).float().square().mean()
        scaler.scale(loss).backward()
        del loss
        mark()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        mark()


def checkpointed(mark: Mark, reentrant: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    blocks = [mlp(512, 2) for _ in range(3)]
    x = batch(requires_grad=True)
    for block in blocks:
        x = checkpoint(block, x, use_reentrant=reentrant)
        mark()
    x.sum().backward()
    mark()


@case
def checkpoints(mark: Mark) -> None:
    checkpointed(mark, False)


@case
def checkpoints_of_the_older_kind(mark: Mark) -> None:
    checkpointed(mark, True)


@case
def checkpoints_with_dropout(mark: Mark) -> None:
    import torch
    from torch.utils.checkpoint import checkpoint

    block = torch.nn.Sequential(mlp(), torch.nn.Dropout(0.1), mlp()).train()
    loss = checkpoint(block, batch(requires_grad=True), use_reentrant=False).sum()
    mark()
    loss.backward()
    mark()


@case
def gradients_of_parts_of_a_batch(mark: Mark) -> None:
    import torch

    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        for part in batch(2048).chunk(4):
            (model(part).square().mean() / 4).backward()
        mark()
        optimizer.step()
        optimizer.zero_grad()
        mark()


@case
def sparse_gradients(mark: Mark) -> None:
    import torch

    table = torch.nn.Embedding(20_000, 64, sparse=True).cuda()
    optimizer = torch.optim.SparseAdam(table.parameters())
    for _ in range(2):
        ids = torch.randint(0, 20_000, (4096,), device="cuda")
        table(ids).square().mean().backward()
        del ids
        mark()
        optimizer.step()
        optimizer.zero_grad()
        mark()


@case
def sparse_tensors(mark: Mark) -> None:
    import torch

    rows = torch.arange(1000, device="cuda")
    sparse = torch.sparse_coo_tensor(torch.stack([rows, rows]), floats(1)[:1000], (1000, 1000))
    mark()
    dense = sparse.to_dense()
    mark()
    del dense, sparse


# Subclasses.


@case
def distributed_tensors(mark: Mark) -> None:
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.testing._internal.distributed.fake_pg import FakeStore
    from torch.utils import _python_dispatch as dispatch

    with dispatch._disable_current_modes():
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
        mesh = DeviceMesh("cuda", list(range(4)))
    try:
        whole = floats(16).view(2048, -1)
        split = distribute_tensor(whole, mesh, [Shard(0)])
        mark()
        del whole
        mark()
        weight = torch.nn.Parameter(split)
        out = (weight * 2).sin()
        mark()
        out.sum().backward()
        mark()
        full = split.redistribute(mesh, [Replicate()])
        mark()
        del full, out, split, weight
    finally:
        dist.destroy_process_group()


@case
def a_tensor_made_of_two(mark: Mark) -> None:
    import torch
    from torch.testing._internal.two_tensor import TwoTensor

    one = TwoTensor(floats(8), floats(8))
    mark()
    two = one * 2
    mark()
    view = two.view(2, -1)
    del two
    mark()
    view.add_(1)
    weight = torch.nn.Parameter(one)
    (weight * 3).sum().backward()
    mark()


@case
def inference(mark: Mark) -> None:
    import torch

    model = mlp().eval()
    for context in (torch.no_grad(), torch.inference_mode()):
        with context:
            out = model(batch())
            mark()
        del out
        mark()


@case
def buffers_of_norms(mark: Mark) -> None:
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(512, 512), nn.BatchNorm1d(512), nn.LayerNorm(512)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    trained(mark, model, optimizer)


@case_of("_fake_leaving")
def copies_of_models_and_states(mark: Mark) -> None:
    import copy

    import torch

    model = mlp()
    average = torch.optim.swa_utils.AveragedModel(model)
    mark()
    average.update_parameters(model)
    mark()
    other = copy.deepcopy(model)
    mark()
    other.load_state_dict(model.state_dict())
    mark()
