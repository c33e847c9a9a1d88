"""`no-grad`: a program that trains nothing runs without a graph; one that may train does not."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from floodmark import changes


class Scorer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 32), nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.tanh(self.first(x)))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Scorer().eval()


def scores(model, x):
    return model(x)


def test_results_are_the_same_without_a_graph(model):
    x = torch.randn(3, 8)
    expected = scores(model, x)
    with changes.apply_changes(["no-grad"]) as applied:
        found = scores(model, x)
        assert torch.is_grad_enabled()
    assert expected.requires_grad
    assert not found.requires_grad
    # A tensor of `inference_mode` could not be used like this.
    found.add_(nn.Parameter(torch.ones(4)).detach())
    assert torch.equal(found, expected + 1)
    (report,) = applied.reports()
    assert (report["target"], report["numerics"], report["slows"]) == ("`Scorer`", "same", False)
    assert scores(model, x).requires_grad
    assert not model._forward_pre_hooks


def test_the_patch_does_the_same(model):
    x = torch.randn(3, 8)
    with changes.apply_changes(["no-grad"]) as applied:
        expected = scores(model, x)
    (report,) = applied.reports()
    exec(report["patch"], {"torch": torch, "model": model})
    found = scores(model, x)
    assert torch.equal(found, expected)
    assert not found.requires_grad


def test_each_model_of_a_program_has_a_line_of_the_patch(model):
    other = nn.Sequential(nn.Linear(4, 4)).eval()
    with changes.apply_changes(["no-grad"]) as applied:
        other(scores(model, torch.randn(3, 8)))
    (report,) = applied.reports()
    assert report["target"] == "`Scorer`, `Sequential`"
    assert "other.forward = torch.no_grad()(other.forward)\n" in report["patch"]
    assert report["patch"].count("# after the model is made\n") == 1


def gradient_of(model, x):
    model.zero_grad()
    model(x).sum().backward()
    return [one.grad for one in model.parameters()]


def of_function(model, x):
    model(x)
    return torch.func.jacrev(lambda one: scores(model, one))(x)


def of_inputs(model, x):
    x = x.clone().requires_grad_()
    return torch.autograd.functional.jacobian(lambda one: scores(model, one), x)


def after_scores_of(model, x):
    """One call without gradients, then one with inputs that need some."""
    scores(model, x)
    x = x.clone().requires_grad_()
    loss = scores(model, x).sum()
    return step_of(loss, x)


def step_of(loss, x):
    loss.backward()
    return x.grad


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        (gradient_of, "`Scorer` is called in `gradient_of` of test_no_grad.py, which uses"),
        (of_function, "`torch.func`"),
        (of_inputs, "the gradients of the inputs"),
        (after_scores_of, "the gradients of the inputs"),
    ],
)
def test_what_needs_gradients_gets_them(model, use, reason):
    x = torch.randn(3, 8)
    expected = use(model, x)
    with changes.apply_changes(["no-grad"]) as applied:
        found = use(model, x)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    (report,) = applied.reports()
    assert report["target"] == ""
    assert reason in report["reason"]


def test_a_program_that_trains_is_left_alone(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with changes.apply_changes(["no-grad"]) as applied:
        model.train()
        before = model.first.weight.clone()
        step_of(scores(model, torch.randn(3, 8)).sum(), torch.empty(0))
        optimizer.step()
    assert not torch.equal(model.first.weight, before)
    assert "is called in training mode; if it is not" in applied.reports()[0]["reason"]


def test_an_optimizer_ends_it(model, capfd):
    with changes.apply_changes(["no-grad"]) as applied:
        assert not scores(model, torch.randn(3, 8)).requires_grad
        torch.optim.AdamW(model.parameters())
        assert scores(model, torch.randn(3, 8)).requires_grad
    reason = "the program makes an optimizer (`AdamW`)"
    assert applied.reports()[0]["reason"] == reason
    assert f"`no-grad` is given up: {reason}" in capfd.readouterr().err


def test_a_backward_pass_after_it_is_explained(model, capfd):
    with changes.apply_changes(["no-grad"]) as applied:
        loss = scores(model, torch.randn(3, 8)).sum()
        with pytest.raises(RuntimeError, match="does not require grad"):
            step_of(loss, torch.empty(0))
        assert scores(model, torch.randn(3, 8)).requires_grad
    assert "its calls until now have none: run it without" in capfd.readouterr().err
    assert applied.reports()[0]["target"] == ""


def test_what_has_no_graph_already_is_said(model):
    def reason():
        with changes.apply_changes(["no-grad"]) as applied:
            scores(model, torch.randn(3, 8))
        return applied.reports()[0]["reason"]

    with torch.inference_mode():
        assert reason() == "`Scorer` is called without gradients already"
    model.requires_grad_(False)
    assert reason() == "no parameter of `Scorer` requires gradients"
    with changes.apply_changes(["no-grad"]) as applied:
        pass
    assert applied.reports()[0]["reason"] == "no module was called"
