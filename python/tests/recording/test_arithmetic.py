"""Shapes say what must be in memory: the numbers are checked against plain arithmetic."""

from __future__ import annotations

import pytest
import torch
from support.flood_file import line_of
from torch import nn


def by_line(report):
    """Bytes by line number, of this file."""
    return {row["line"]: row["bytes"] for row in report if row["file"] == __file__}


def fill():
    first = torch.empty(1000, 250)  # first
    second = torch.zeros(3000, dtype=torch.float64)  # second
    third = torch.ones(7, 11, dtype=torch.int16)  # third
    return first, second, third


def test_every_line_holds_what_its_shapes_say(record):
    with record() as recorded:
        kept = fill()
    report = recorded.trace.end("cpu").by_line()
    assert by_line(report) == {
        line_of(fill, "first"): 1000 * 250 * 4,
        line_of(fill, "second"): 3000 * 8,
        line_of(fill, "third"): 7 * 11 * 2,
    }
    assert report.allocated == 1_000_000 + 24_000 + 154 + before(recorded)
    assert report.losses == []
    del kept


def before(recorded):
    """What was in memory when the recording began, as far as it is known."""
    rows = recorded.trace.end("cpu").by_line(top=None)
    return sum(row["bytes"] for row in rows if row["location"] == "before recording")


def rise_and_fall():
    low = torch.empty(10_000)  # low
    high = torch.empty(50_000)  # high
    del low
    middle = torch.empty(30_000)  # middle
    del high
    return middle


def test_the_peak_is_the_largest_sum_of_what_lived_together(record):
    with record() as recorded:
        kept = rise_and_fall()
    # low + high = 240,000 bytes; high + middle = 320,000; middle alone at the end.
    peak = recorded.trace.peak("cpu").by_line()
    assert by_line(peak) == {
        line_of(rise_and_fall, "high"): 200_000,
        line_of(rise_and_fall, "middle"): 120_000,
    }
    assert peak.allocated == 320_000 + before(recorded)
    end = recorded.trace.end("cpu").by_line()
    assert by_line(end) == {line_of(rise_and_fall, "middle"): 120_000}
    del kept


def test_views_and_work_in_place_add_nothing(record):
    base = torch.ones(512, 512)
    with record() as recorded:
        views = [base[0], base.T, base.reshape(-1), base.unsqueeze(0).expand(4, 512, 512)]
        base.add_(base).relu_().zero_()
        base[3:5].copy_(base[5:7])
        base += base
        views.append(base.detach())
    large = [event for event in recorded.file.allocations() if event.bytes >= 512 * 4]
    assert large == []
    del views


def test_a_freed_block_is_gone_and_the_same_line_can_hold_it_again(record):
    def work():
        return torch.empty(70_000, dtype=torch.uint8)  # again

    with record() as recorded:
        for _ in range(5):
            work()
        kept = [work(), work()]
    rows = [row for row in recorded.trace.end("cpu").by_line() if row["file"] == __file__]
    assert [(row["bytes"], row["count"], row["median"]) for row in rows] == [(140_000, 2, 70_000)]
    assert len(recorded.file.allocations(70_000)) == 7
    del kept


def test_a_training_step_holds_weights_gradients_and_activations(record):
    batch, width, depth = 64, 128, 4
    with record() as recorded:
        model = nn.Sequential(*(nn.Linear(width, width, bias=False) for _ in range(depth)))
        x = torch.randn(batch, width)
        loss = model(x).sum()
        loss.backward()
    weights = depth * width * width * 4
    report = recorded.trace.end("cpu").by_line(top=None)
    inputs = batch * width * 4
    # The output of the last layer is gone with the graph; the loss is one number.
    assert report.allocated - before(recorded) == 2 * weights + inputs + 4
    modules = {row["location"]: row["bytes"] for row in recorded.trace.end("cpu").by_module()}
    assert [modules[str(number)] >= width * width * 4 for number in range(depth)] == [True] * depth


@pytest.mark.parametrize("steps", [1, 7])
def test_blocks_from_before_are_a_row_of_their_own(record, steps):
    old = torch.ones(123_456)
    with record() as recorded:
        for _ in range(steps):
            new = torch.ones(1000)
    rows = recorded.trace.end("cpu").by_line(top=None).rows
    (row,) = [row for row in rows if row["location"] == "before recording"]
    assert row["bytes"] >= 4 * 123_456
    with record() as recorded:
        del old
    gone = recorded.trace.end("cpu").by_line(top=None).allocated
    assert gone <= row["bytes"] + 4000 - 4 * 123_456 + 4000
    del new


def test_growing_by_resize_is_an_allocation_and_a_free(record):
    with record() as recorded:
        tensor = torch.empty(1000, dtype=torch.uint8)
        tensor.resize_(9000)
    assert len(recorded.file.allocations(1000)) == len(recorded.file.allocations(9000)) == 1
    sizes = [row["bytes"] for row in recorded.trace.end("cpu").by_tensor()]
    assert 9000 in sizes
    assert 1000 not in sizes
