"""Cases about tensors and storages, and about what autograd keeps of them."""

from __future__ import annotations

import contextlib
import gc
import threading
from typing import Any

from fake_frame import MIB, Mark, batch, case, case_of, floats, mlp

# Views and aliases.


@case
def views_share_one_storage(mark: Mark) -> None:
    x = floats(16)
    kept = [x.view(4, -1), x[5:], x.detach(), x.data, x.T, x.unsqueeze(0).expand(64, -1)]
    mark()
    del x
    mark()
    del kept[1:]
    mark()


@case
def chunks_and_splits_are_no_copies(mark: Mark) -> None:
    x = floats(8).view(1024, -1)
    kept = [*x.chunk(4), *x.split(100), *x.unbind(1), x.diagonal(), x.flatten()]
    mark()
    kept.append(x.t().flatten())
    mark()
    kept.append(x[:, 1:].contiguous())
    mark()


@case
def a_part_keeps_the_whole(mark: Mark) -> None:
    part = floats(32)[:1]
    mark()
    part = part.clone()
    mark()
    del part


@case
def expanded_reads_are_small_and_writes_are_not(mark: Mark) -> None:
    x = floats(1).expand(8, -1)
    mark()
    y = x + 1
    mark()
    z = x.contiguous()
    mark()
    del y, z


# Storages that change.


@case
def a_tensor_grows_in_place(mark: Mark) -> None:
    x = floats(4)
    x.resize_(8 * MIB // 4)
    mark()
    x.resize_(2 * MIB // 4)
    mark()
    x.resize_as_(floats(16))
    mark()


@case
def a_tensor_takes_the_storage_of_another(mark: Mark) -> None:
    x, y = floats(4), floats(16)
    x.set_(y)
    mark()
    del y
    mark()
    x.set_()
    mark()


@case
def a_tensor_is_given_other_data(mark: Mark) -> None:
    x = floats(16)
    x.data = floats(4)
    mark()
    view = x.view(2, -1)
    x.data = floats(2)
    mark()
    del view
    mark()


@case
def parameters_are_given_other_data(mark: Mark) -> None:
    import torch

    weight = torch.nn.Parameter(floats(16))
    weight.data = weight.data.half()
    mark()
    weight.data = torch.empty(0, device="cuda", dtype=torch.half)
    mark()


@case
def a_storage_is_emptied_and_filled_again(mark: Mark) -> None:
    x = floats(16)
    view = x[1:]
    size = x.untyped_storage().size()
    x.untyped_storage().resize_(0)
    mark()
    kept = floats(8)
    mark()
    x.untyped_storage().resize_(size)
    mark()
    del view, kept


@case
def an_output_argument_grows(mark: Mark) -> None:
    import torch

    out = torch.empty(0, device="cuda")
    x = floats(4)
    torch.add(x, 1, out=out)
    mark()
    torch.mul(x, 2, out=out)
    mark()


@case
def in_place_operators_make_nothing(mark: Mark) -> None:
    x = floats(16)
    x.add_(1).mul_(2).zero_().clamp_(0).copy_(x)
    x[3:] = 4
    x += 1
    mark()


@case
def sizes_are_rounded(mark: Mark) -> None:
    import torch

    kept = []
    for count in (0, 1, 127, 128, 129, 1000, MIB // 4 + 1, 5 * MIB // 4 + 3):
        kept.append(torch.empty(count, device="cuda"))
        mark()


@case
def modules_are_cast_and_moved(mark: Mark) -> None:
    import torch

    model = torch.nn.Linear(1024, 1024)
    mark()
    model.cuda()
    mark()
    model.half()
    mark()
    model.to("cpu")
    mark()


@case
def copies_between_devices(mark: Mark) -> None:
    import torch

    x = torch.empty(MIB, device="cpu")
    y = x.cuda()
    mark()
    z = y.cpu()
    del y
    mark()
    kept = floats(4)
    kept.copy_(z, non_blocking=True)
    mark()
    half = x.to("cuda", torch.half)
    mark()
    del half


# Autograd.


@case
def saved_tensors_live_as_long_as_the_graph(mark: Mark) -> None:
    x = floats(8, requires_grad=True)
    y = x.sin().exp().tanh()
    mark()
    loss = y.sum()
    del y
    mark()
    loss.backward()
    mark()


@case
def a_graph_is_kept_and_used_again(mark: Mark) -> None:
    x = floats(8, requires_grad=True)
    loss = x.sin().exp().sum()
    loss.backward(retain_graph=True)
    mark()
    loss.backward()
    mark()


@case
def a_gradient_of_a_gradient(mark: Mark) -> None:
    import torch

    x = floats(4, requires_grad=True)
    (slope,) = torch.autograd.grad(x.sin().exp().sum(), x, create_graph=True)
    mark()
    slope.square().sum().backward()
    mark()


@case
def a_gradient_penalty_of_a_network(mark: Mark) -> None:
    import torch

    model, x = mlp(256, 2), batch(256, 256, requires_grad=True)
    (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    mark()
    (slope.norm(2, 1) - 1).square().mean().backward()
    mark()


@case
def gradients_are_accumulated_in_place(mark: Mark) -> None:
    model = mlp()
    for _ in range(3):
        model(batch()).sum().backward()
        mark()
    for weight in model.parameters():
        weight.grad = None
    mark()


@case
def a_tensor_that_is_used_twice(mark: Mark) -> None:
    import torch

    x = floats(8, requires_grad=True)
    weight = torch.nn.Parameter(floats(8))
    (x * weight + weight.sin() + weight).sum().backward()
    mark()


@case
def gradients_stay_where_they_are_not_set_to_none(mark: Mark) -> None:
    import torch

    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for is_none in (False, False, True):
        model(batch()).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=is_none)
        mark()


@case
def hooks_that_keep_and_move_what_is_saved(mark: Mark) -> None:
    import torch

    x = floats(8, requires_grad=True)
    with torch.autograd.graph.save_on_cpu():
        loss = x.sin().exp().sum()
    mark()
    loss.backward()
    mark()


@case
def a_function_of_the_users_own(mark: Mark) -> None:
    import torch

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x.half())
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (kept,) = ctx.saved_tensors
            return grad * kept.float()

    x = floats(8, requires_grad=True)
    y = Double.apply(x)
    mark()
    y.sum().backward()
    mark()


# Order.


@case
def an_error_in_the_middle(mark: Mark) -> None:
    import torch

    def fails(x: Any) -> Any:
        made = x * 2
        return made @ torch.empty(3, 3, device="cuda")

    # What a traceback holds is not the same: fake tensors have frames of Python inside.
    with contextlib.suppress(RuntimeError):
        fails(floats(8))
    mark()


@case
def cycles_live_until_they_are_collected(mark: Mark) -> None:
    gc.disable()
    try:
        ring: list[Any] = [floats(8)]
        ring.append(ring)
        del ring
        mark()
        gc.collect()
        mark()
    finally:
        gc.enable()


@case_of("_fake_leaving")
def other_threads(mark: Mark) -> None:
    kept: list[Any] = []

    def work() -> None:
        x = floats(8, requires_grad=True)
        x.sin().sum().backward()
        kept.append(x)

    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        mark()
