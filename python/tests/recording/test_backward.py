"""Backward allocations belong to the forward line and the module that caused them."""

from __future__ import annotations

import threading

import pytest
import torch
from support.flood_file import line_of
from torch import nn
from torch.utils.checkpoint import checkpoint


def backward_of(recorded):
    """The backward allocations. All but those of the loss, which no module made, have a module."""
    backward = [event for event in recorded.file.allocations() if event.backward]
    assert backward
    for event in backward:
        assert event.module is not None or event.bytes == 4, (event.bytes, event.frames[:4])
    return backward


class Views(nn.Module):
    """Begins with views, which allocate nothing in forward but do in backward."""

    def forward(self, x):
        first = x[:, 0]  # select
        wide = first.unsqueeze(0).expand(16, -1)  # expand
        turned = wide.transpose(0, 1)  # transpose
        return turned * 2.0  # multiply


def test_views_at_the_beginning_of_a_module_belong_to_it(record):
    model = nn.Sequential(nn.Linear(32, 32), Views())
    x = torch.randn(64, 32, requires_grad=True)
    with record() as recorded:
        model(x).sum().backward()
    backward = backward_of(recorded)
    # The gradient of `x[:, 0]`: zeros of the shape of `x`.
    selected = [event for event in backward if event.bytes == 64 * 32 * 4 and event.module == "1"]
    assert {event.frames[0].line for event in selected} == {line_of(Views.forward, "select")}
    # The gradient of `expand` sums 16 rows.
    summed = [event for event in backward if event.bytes == 64 * 4 and event.module == "1"]
    assert line_of(Views.forward, "expand") in [event.frames[0].line for event in summed]
    scaled = [event for event in backward if event.bytes == 16 * 64 * 4]
    assert line_of(Views.forward, "multiply") in [event.frames[0].line for event in scaled]
    assert all(event.is_in("forward") for event in backward if event.module == "1")
    # The gradients of the linear layer.
    of_linear = [event.bytes for event in backward if event.module == "0"]
    assert 32 * 32 * 4 in of_linear


class Cube(torch.autograd.Function):
    """Allocates in its own Python backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        square = x * x  # square
        return grad * square.mul_(3.0)  # product


class Cubes(nn.Module):
    def forward(self, x):
        return Cube.apply(x)  # apply


def test_a_custom_function_shows_its_backward_below_its_forward(record):
    model = nn.Sequential(nn.Linear(16, 16), Cubes())
    x = torch.randn(8, 16)
    with record() as recorded:
        model(x).sum().backward()
    backward = backward_of(recorded)
    inside = [event for event in backward if event.module == "1"]
    whole = [event for event in inside if event.bytes == 8 * 16 * 4]
    lines = [event.frames[0].line for event in whole if event.frames[0].name == "backward"]
    assert lines == [line_of(Cube.backward, "square"), line_of(Cube.backward, "product")]
    for event in inside:
        assert event.is_in("forward"), event.frames
        assert line_of(Cubes.forward, "apply") in [frame.line for frame in event.frames]


class Checkpointed(nn.Module):
    def __init__(self, use_reentrant):
        super().__init__()
        self.up = nn.Linear(32, 64)
        self.down = nn.Linear(64, 32)
        self.use_reentrant = use_reentrant

    def body(self, x):
        return self.down(torch.tanh(self.up(x)))  # body

    def forward(self, x):
        return checkpoint(self.body, x, use_reentrant=self.use_reentrant)


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpointing_recomputes_inside_its_module(record, use_reentrant):
    model = nn.Sequential(Checkpointed(use_reentrant), nn.Linear(32, 8))
    x = torch.randn(128, 32, requires_grad=True)
    with record() as recorded:
        model(x).sum().backward()
    backward = backward_of(recorded)
    # Recomputation: the output of `up`, made while backward runs.
    again = [event for event in backward if event.is_in("body") and event.bytes == 128 * 64 * 4]
    modules = {event.module for event in again}
    assert {"0.up", "0"} <= modules, modules
    lines = {frame.line for event in again for frame in event.frames if frame.name == "body"}
    assert lines == {line_of(Checkpointed.body, "body")}
    weights = {event.module for event in backward if event.bytes == 64 * 32 * 4}
    assert {"0.up", "0.down"} <= weights


def test_two_backwards_over_one_graph_belong_to_the_same_lines(record):
    model = nn.Sequential(nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, 8))
    with record() as recorded:
        loss = model(torch.randn(4, 16)).sum()
        loss.backward(retain_graph=True)
        model.zero_grad()
        loss.backward()
    backward = backward_of(recorded)
    made = [(event.module, event.bytes) for event in backward if event.module is not None]
    half = len(made) // 2
    assert made[:half] == made[half:]
    assert ("0", 16 * 24 * 4) in made
    assert ("2", 8 * 24 * 4) in made


def test_double_backward_belongs_to_the_module_of_the_first_forward(record):
    class Squares(nn.Module):
        def forward(self, x):
            return torch.tanh(x) * x  # tanh

    model = nn.Sequential(nn.Linear(16, 16), Squares())
    x = torch.randn(8, 16, requires_grad=True)
    with record() as recorded:
        loss = model(x).sum()
        (grad,) = torch.autograd.grad(loss, x, create_graph=True)
        (grad * grad).sum().backward()
    backward = [event for event in recorded.file.allocations() if event.backward]
    named = [event for event in backward if event.module == "1"]
    assert named
    assert {event.frames[0].line for event in named} == {line_of(Squares.forward, "tanh")}
    assert any(event.module == "0" and event.bytes == 16 * 16 * 4 for event in backward)
    # Only what came after the modules (the loss and the penalty) has none.
    for event in backward:
        if event.module is None:
            assert event.frames[0].name.startswith("test_double"), event.frames[:2]


def test_gradients_of_a_parameter_used_twice_belong_to_a_module(record):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(32, 32))

        def forward(self, x):
            once = x @ self.weight  # once
            return once @ self.weight  # twice

    class Spread(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.randn(1))

        def forward(self, x):
            return x * self.scale.expand(32)  # spread

    model = nn.Sequential(Twice(), Spread())
    with record() as recorded:
        model(torch.randn(8, 32)).sum().backward()
    backward = backward_of(recorded)
    weights = [event for event in backward if event.bytes == 32 * 32 * 4]
    assert {event.module for event in weights} == {"0"}
    assert model[0].weight.grad is not None


def test_the_copy_that_accumulate_grad_makes_is_marked_as_backward(record):
    """An expanded gradient cannot be taken over as it is: AccumulateGrad makes a copy of it."""
    weight = nn.Parameter(torch.zeros(64, 32))
    with record() as recorded:
        weight.sum().backward()
    copies = recorded.file.allocations(64 * 32 * 4)
    assert [event.backward for event in copies] == [True]
    assert any(frame.name.startswith("test_the_copy") for frame in copies[0].frames)


def test_backward_on_another_thread_belongs_to_the_forward_of_the_first(record):
    model = nn.Sequential(nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, 8))
    with record() as recorded:
        loss = model(torch.randn(4, 16)).sum()
        thread = threading.Thread(target=loss.backward)
        thread.start()
        thread.join()
    backward = backward_of(recorded)
    assert len({event.thread for event in recorded.file.allocations()}) == 2
    assert {event.module for event in backward if event.module} == {"0", "1", "2"}


def test_forward_on_another_thread_is_found_again(record):
    model = nn.Sequential(nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, 8))
    losses = []

    def work():
        losses.append(model(torch.randn(4, 16)).sum())

    with record() as recorded:
        model(torch.randn(1, 16))
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        losses[0].backward()
    backward = backward_of(recorded)
    assert {event.module for event in backward if event.module} == {"0", "1", "2"}
    assert all(event.is_in("work") for event in backward if event.module)


def test_a_graph_from_before_the_recording_is_not_given_to_anyone(record):
    model = nn.Linear(16, 16)
    loss = model(torch.randn(4, 16)).sum()
    with record() as recorded:
        loss.backward()
    backward = [event for event in recorded.file.allocations() if event.backward]
    assert backward
    assert all(event.module is None for event in backward)


def test_hooks_on_gradients_show_their_own_lines(record):
    def hook(grad):
        return grad.clone()  # clone

    model = nn.Linear(16, 16)
    with record() as recorded:
        out = model(torch.randn(4, 16))
        out.register_hook(hook)
        out.sum().backward()
    cloned = [event for event in recorded.file.allocations() if event.is_in("hook")]
    assert [event.frames[0].line for event in cloned] == [line_of(hook, "clone")]
    assert cloned[0].backward
