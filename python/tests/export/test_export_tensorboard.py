"""Event files, read again with TensorBoard's own reader."""

from __future__ import annotations

import pytest
from support.checkout import FIXTURES
from support.formats import png_size

from floodmark.reports.trace import Trace

accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
tensor_util = pytest.importorskip("tensorboard.util.tensor_util")

ZOO = FIXTURES / "recordings" / "zoo"


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Three training steps, recorded on a GPU."""
    return Trace.open(ZOO / "bert_amp.pickle.gz")


@pytest.fixture(scope="module")
def board(trace, tmp_path_factory):
    folder = tmp_path_factory.mktemp("board") / "x.tensorboard"
    trace.export(folder)
    found = accumulator.EventAccumulator(str(folder), size_guidance={"tensors": 0})
    found.Reload()
    return found


def points(board, tag: str) -> dict[int, int]:
    return {
        event.step: int(tensor_util.make_ndarray(event.tensor_proto).item())
        for event in board.Tensors(tag)
    }


def test_points_are_those_of_the_report_by_step(trace, board):
    steps = [row for row in trace.report(by="step", device="cuda:0") if row["step"] is not None]
    assert len(steps) >= 3
    for name, key in (("peak", "peak"), ("allocated", "end"), ("reserved", "reserved")):
        expected = {row["step"]: row[key] for row in steps if row[key] is not None}
        assert points(board, f"memory/cuda0/{name}") == expected
    for kind in ("categories", "phases"):
        for row in steps:
            for name, value in row[kind].items():
                tag = f"memory/cuda0/{kind}/{name.replace(' ', '_')}"
                assert points(board, tag)[row["step"]] == value


def test_tags_are_drawn_as_lines(board):
    metadata = board.SummaryMetadata("memory/cuda0/peak")
    assert metadata.plugin_data.plugin_name == "scalars"


def test_the_picture_is_whole(board):
    (image,) = board.Images("memory/cuda0/timeline")
    assert png_size(image.encoded_image_string) == (image.width, image.height)


def test_tags_are_those_that_a_running_program_writes(trace, board, tmp_path):
    from floodmark.integrations.tensorboard import write_scalars

    write_scalars(trace, tmp_path)
    live = accumulator.EventAccumulator(str(tmp_path), size_guidance={"tensors": 0})
    live.Reload()
    for tag in live.Tags()["tensors"]:
        assert points(board, tag) == points(live, tag)
