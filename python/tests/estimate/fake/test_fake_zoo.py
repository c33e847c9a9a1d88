"""Models with fake tensors against what a real H200 recorded.

The recordings were made with the versions of torch and of the models that the checkout pins;
elsewhere there is nothing to compare with.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.recorded_models import both, needs_recorded_versions, peak

pytestmark = needs_recorded_versions

#: By how much the peak may miss. A recurrent network's workspaces are cuDNN's own choice.
WITHIN = {"lstm": 0.02}
#: The same for what is reserved: where cuDNN's workspaces lie decides which segments are cut.
RESERVED_WITHIN = {"resnet18_fp32": 0.05}
QUICK = ["neumf", "t5_small", "resnet18_fp32", "lstm"]
SLOW = [
    "gpt2_small_fp32",
    "llama1b_bf16",
    "llama1b_ckpt",
    "llama1b_infer",
    "bert_amp",
    "resnet50_amp_cl",
]


def check(name: str) -> None:
    truth, _, found = both(name, "--fake")
    assert abs(found["built"] - truth["built"]) <= truth["built"] // 1000
    assert off(found, truth) <= WITHIN.get(name, 0.01)
    reserved_within = RESERVED_WITHIN.get(name, 0.03) * truth["reserved"]
    assert abs(found["reserved"] - truth["reserved"]) <= reserved_within
    # Each step is right by itself, not the highest one alone.
    for one, real in zip(found["steps"], truth["steps"], strict=True):
        for phase, figures in real.items():
            if isinstance(figures, dict):
                within = WITHIN.get(name, 0.01) * peak(truth)
                assert abs(one[phase]["peak"] - figures["peak"]) <= within, phase
                assert abs(one[phase]["end"] - figures["end"]) <= within, phase


def off(found: dict[str, Any], truth: dict[str, Any]) -> float:
    """How far the peak is from the recorded one, as a part of it."""
    return abs(peak(found) - peak(truth)) / peak(truth)


@pytest.mark.parametrize("name", QUICK)
def test_a_model_has_the_peak_that_was_recorded(name: str) -> None:
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_larger_models_have_the_peak_that_was_recorded(name: str) -> None:
    check(name)
