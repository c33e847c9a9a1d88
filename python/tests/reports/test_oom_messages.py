"""Explanations of torch's out-of-memory messages, from Python."""

from __future__ import annotations

import json

import pytest
import torch
from support.answer_schema import check_answer
from support.checkout import FIXTURES

import floodmark

MESSAGES = json.loads((FIXTURES / "oom_messages" / "messages.json").read_text())


def test_a_message_is_a_value_as_described():
    fragmented = next(one for one in MESSAGES if one["reason"] == "fragmentation")
    found = floodmark.explain_oom(fragmented["message"])
    assert found.why == "fragmentation"
    assert found.device == "cuda:0"
    assert str(found).startswith("Out of memory on cuda:0: ")
    assert "<table" in found._repr_html_()
    for one in MESSAGES:
        check_answer("oom -", floodmark.explain_oom(one["message"]).to_dict())


def test_an_exception_is_explained_with_its_frame():
    def allocate():
        raise RuntimeError(MESSAGES[0]["message"].removeprefix("RuntimeError: "))

    with pytest.raises(RuntimeError) as raised:
        allocate()
    cause = floodmark.explain_oom(raised.value).cause
    assert cause["reason"] == MESSAGES[0]["reason"]
    assert cause["frame"] is not None
    assert cause["frame"]["function"] == "allocate"


def test_a_real_error_of_the_cpu_is_host_memory_or_a_huge_request():
    with pytest.raises(RuntimeError) as raised:
        torch.empty(1 << 58, dtype=torch.uint8)
    assert floodmark.explain_oom(raised.value).why == "huge_request"


def test_a_text_without_a_message_is_an_error():
    with pytest.raises(
        floodmark.FloodmarkError, match="no out-of-memory message of torch in 1 line"
    ):
        floodmark.explain_oom("all is well")
