"""Models on a simulated H200 against what a real one recorded, to the byte.

The recordings were made on an H200 with the versions of torch and of the models that the checkout
pins; elsewhere there is nothing to compare with.
"""

from __future__ import annotations

import pytest
from support.recorded_models import both, needs_recorded_versions, peak

pytestmark = needs_recorded_versions

#: Every number is the recorded one. ResNet-18 has convolutions whose workspaces cuDNN plans for
#: fewer multiprocessors, and the phantom corrects.
EXACT = [
    "neumf",
    "gpt2_small_fp32",
    "t5_small",
    "llama1b_bf16",
    "llama1b_ckpt",
    "llama1b_infer",
    "resnet18_fp32",
]


@pytest.mark.parametrize("name", [*EXACT, "lstm"])
def test_every_allocation_and_every_figure_is_the_recorded_one(name: str) -> None:
    truth, sizes, found = both(name)
    assert found["sizes"] == sizes
    assert found["steps"] == truth["steps"]
    for figure in ("built", "reserved", "allocated"):
        assert found[figure] == truth[figure], figure


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2_small_fp32", "llama1b_bf16", "resnet18_fp32", "lstm"])
def test_they_are_also_on_a_phantom_that_came_after_torch(name: str) -> None:
    truth, sizes, found = both(name, "--late")
    assert found["sizes"] == sizes
    assert found["steps"] == truth["steps"]


def test_with_autocast_every_allocation_is_the_recorded_one() -> None:
    # Autocast frees its copies in the order of their addresses on the host, which no two runs
    # have in common: which free block a request takes, and how much larger it is, varies a little.
    truth, sizes, found = both("bert_amp")
    assert found["sizes"] == sizes
    assert found["reserved"] == truth["reserved"]
    assert abs(peak(found) - peak(truth)) < 8 << 20


@pytest.mark.parametrize("name", ["resnet50_amp_cl"])
def test_convolutions_are_within_one_percent(name: str) -> None:
    truth, _, found = both(name)
    assert abs(peak(found) - peak(truth)) <= peak(truth) // 100
    assert abs(found["reserved"] - truth["reserved"]) <= truth["reserved"] // 100
