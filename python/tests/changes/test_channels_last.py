"""`channels-last`: convolutions get images and weights with their channels last."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from floodmark import changes

LAST = torch.channels_last


class Net(nn.Module):
    """Says in which formats its images come."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.last = nn.Linear(4, 5)
        self.formats: list[bool] = []

    def forward(self, x: torch.Tensor, *, mask: torch.Tensor | None = None) -> torch.Tensor:
        self.formats.append(x.is_contiguous(memory_format=LAST))
        x = self.up(torch.relu(self.norm(self.first(x))))
        self.formats.append(x.is_contiguous(memory_format=LAST))
        if mask is not None:
            self.formats.append(mask.is_contiguous(memory_format=LAST))
            x = x * mask
        return self.last(x.mean((2, 3)))


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net()


def trained(net, steps=2):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    torch.manual_seed(1)
    for _ in range(steps):
        net(torch.randn(2, 3, 8, 8), mask=torch.rand(2, 4, 16, 16)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return optimizer


def test_training_gives_the_same_parameters_but_for_rounding(net):
    plain = copy.deepcopy(net)
    trained(plain)
    with changes.apply_changes(["channels-last"]) as applied:
        optimizer = trained(net)
        assert net.first.weight.is_contiguous(memory_format=LAST)
    assert (set(plain.formats), set(net.formats)) == ({False}, {True})
    for one, other in zip(net.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert optimizer.param_groups[0]["params"][0] is net.first.weight
    (report,) = applied.reports()
    assert report["target"] == "2 convolutions of `Net`"
    assert (report["numerics"], report["slows"]) == ("rounding", False)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_inference_is_changed_by_the_patch_as_by_the_change(net, mode):
    net.eval()
    pasted = copy.deepcopy(net)
    x = torch.randn(2, 3, 8, 8)
    with changes.apply_changes(["channels-last"]) as applied, mode():
        found = net(x)
    (report,) = applied.reports()
    assert "# after the model is made\n" in report["patch"]
    exec(report["patch"], {"torch": torch, "net": pasted})
    with mode():
        assert torch.equal(pasted(x), found)
    assert pasted.formats == [True, True]
    # It may be trained after its evaluation.
    trained(net)


def test_kernels_of_one_pixel_get_images_with_their_channels_last():
    model = nn.Sequential(nn.Conv2d(3, 8, 1))
    with changes.apply_changes(["channels-last"]) as applied:
        assert model(torch.randn(2, 3, 8, 8)).is_contiguous(memory_format=LAST)
    assert applied.reports()[0]["target"] == "1 convolution of `Sequential`"


def test_it_is_undone(net):
    weight = net.first.weight.clone()
    with changes.apply_changes(["channels-last"]):
        trained(net, steps=0)
        net.eval()(torch.randn(2, 3, 8, 8))
    assert net.first.weight.is_contiguous()
    assert torch.equal(net.first.weight, weight)
    assert not net._forward_pre_hooks
    net.formats.clear()
    net(torch.randn(2, 3, 8, 8))
    assert net.formats == [False, False]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: nn.Linear(8, 8), "`Linear` has no `Conv2d`"),
        (lambda: Net().to(memory_format=LAST), "`Net` has its channels last already"),
    ],
)
def test_other_models_are_left_alone(make, reason):
    model = make()
    x = torch.randn(2, 8) if isinstance(model, nn.Linear) else torch.randn(2, 3, 8, 8)
    with changes.apply_changes(["channels-last"]) as applied:
        model(x)
    assert applied.reports()[0]["reason"] == reason
    with changes.apply_changes(["channels-last"]) as applied:
        pass
    assert applied.reports()[0]["reason"] == "no module was called"
