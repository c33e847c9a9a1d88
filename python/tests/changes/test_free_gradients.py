"""`free-gradients`: gradients are gone after a step, and the training is the same."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import nn

from floodmark import changes

#: The orders of a loop, and who sets gradients to zero.
LOOPS = ["zero first", "zero last", "model"]


class Branches(nn.Module):
    """Two layers, of which a batch uses one or both."""

    def __init__(self) -> None:
        super().__init__()
        self.some, self.others = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, *, both: bool) -> torch.Tensor:
        return self.others(self.some(x)) if both else self.some(x)


def model_and_optimizer(kind=torch.optim.AdamW):
    torch.manual_seed(0)
    model = Branches()
    return model, kind(model.parameters(), lr=0.1)


def train(model, optimizer, loop="zero last", steps=4, **zeroing):
    """Train; how many gradients there were before each forward pass."""
    torch.manual_seed(1)
    live = []
    zero = model.zero_grad if loop == "model" else optimizer.zero_grad
    for step in range(steps):
        live.append(sum(one.grad is not None for one in model.parameters()))
        if loop == "zero first":
            zero(**zeroing)
        # The second layer gets no gradient in the last steps.
        model(torch.randn(4, 4), both=step < 2).square().mean().backward()
        optimizer.step()
        if loop != "zero first":
            zero(**zeroing)
    return live


def state_of(model, optimizer):
    found = [one for state in optimizer.state.values() for one in state.values()]
    return [*model.parameters(), *found]


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("zeroing", [{}, {"set_to_none": True}, {"set_to_none": False}])
def test_gradients_are_freed_and_the_training_is_the_same(kind, loop, zeroing):
    expected = model_and_optimizer(kind)
    before = train(*expected, loop, **zeroing)
    assert (max(before) == 4) is (zeroing.get("set_to_none") is False or loop == "zero first")

    model, optimizer = model_and_optimizer(kind)
    with changes.apply_changes(["free-gradients"]) as applied:
        assert train(model, optimizer, loop, **zeroing) == [0] * 4
        assert all(one.grad is None for one in model.parameters())

    pairs = zip(state_of(model, optimizer), state_of(*expected), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    (report,) = applied.reports()
    assert (report["target"], report["numerics"]) == (f"`{kind.__name__}`", "same")

    again = model_and_optimizer(kind)
    exec(report["patch"], {"torch": torch, "optimizer": again[1]})
    assert train(*again, loop, **zeroing) == [0] * 4
    pairs = zip(state_of(*again), state_of(*expected), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_offloaded_states_do_not_take_hidden_gradients_for_missing_ones():
    expected = model_and_optimizer()
    train(*expected, set_to_none=False)
    model, optimizer = model_and_optimizer()
    with changes.apply_changes(["offload-optimizer-states", "free-gradients"]):
        assert train(model, optimizer, set_to_none=False) == [0] * 4
    pairs = zip(state_of(model, optimizer), state_of(*expected), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)


def test_gradients_that_the_program_keeps_are_left():
    model, optimizer = model_and_optimizer()
    with changes.apply_changes(["free-gradients"]) as applied:
        model(torch.randn(4, 4), both=True).sum().backward()
        kept = [one.grad for one in model.parameters()]
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        assert all(one.grad is grad for one, grad in zip(model.parameters(), kept, strict=True))
        assert not any(grad.any() for grad in kept)
        train(model, optimizer, set_to_none=False)
    assert applied.reports()[0]["reason"] == "the program keeps gradients, and sets them to zero"


def test_gradients_in_one_buffer_are_left():
    model, optimizer = model_and_optimizer()
    parameters = list(model.parameters())
    buffer = torch.zeros(sum(one.numel() for one in parameters))
    sizes = [one.numel() for one in parameters]
    for one, part in zip(parameters, buffer.split(sizes), strict=True):
        one.grad = part.view_as(one)
    del part
    with changes.apply_changes(["free-gradients"]) as applied:
        train(model, optimizer, "zero first", set_to_none=False)
    reason = "gradients are parts of buffers that the program sets to zero"
    assert applied.reports()[0]["reason"] == reason
    assert buffer.any()


def test_a_program_that_never_zeroes_keeps_its_gradients():
    model, optimizer = model_and_optimizer()
    with changes.apply_changes(["free-gradients"]) as applied:
        model(torch.randn(4, 4), both=True).sum().backward()
        optimizer.step()
        assert all(one.grad is not None for one in model.parameters())
    assert applied.reports()[0]["reason"] == "no optimizer made a step after `zero_grad`"


def test_models_and_optimizers_die_as_before():
    model, optimizer = model_and_optimizer()
    with changes.apply_changes(["free-gradients"]):
        train(model, optimizer, set_to_none=False)
        reference = weakref.ref(model.some.weight)
        del model, optimizer
        gc.collect()
        assert reference() is None
    assert torch.optim.Optimizer.zero_grad.__module__ == "torch.optim.optimizer"
