"""When memory runs out the exception is the program's, and the trace says who held what."""

from __future__ import annotations

import pytest
import torch
from support.flood_file import OOM, line_of

HUGE = 1 << 50


def run_out():
    held = torch.empty(400_000, dtype=torch.uint8)  # held
    more = torch.empty(HUGE, dtype=torch.uint8)  # huge
    return held, more


def words_of(error):
    """Without torch's own C++ lines, which differ from call to call."""
    return type(error), str(error).split("\n", 1)[0]


def test_the_exception_reaches_the_user_untouched(record):
    with pytest.raises(RuntimeError) as plain:
        run_out()
    with record() as recorded, pytest.raises(RuntimeError) as ours:
        run_out()
    assert words_of(ours.value) == words_of(plain.value)
    assert len(ours.traceback) == len(plain.traceback)
    (event,) = [event for event in recorded.file.events if event.kind == OOM]
    assert event.bytes == HUGE
    assert event.frames[0].line == line_of(run_out, "huge")


def test_the_report_shows_who_held_what(record):
    with record() as recorded:
        with pytest.raises(RuntimeError):
            run_out()
        later = torch.empty(900_000, dtype=torch.uint8)
    report = recorded.trace.oom("cpu").by_line()
    lines = {row["line"]: row["bytes"] for row in report if row["file"] == __file__}
    assert lines == {line_of(run_out, "held"): 400_000}
    assert str(HUGE) in report.to_json()
    assert recorded.trace.summary()["failed_requests"] == 1
    del later


def test_the_recording_goes_on_after_it(record):
    with record() as recorded:
        for _ in range(3):
            with pytest.raises(RuntimeError):
                run_out()
        kept = torch.empty(5000, dtype=torch.uint8)
    assert len(recorded.file.allocations(400_000)) == 3
    assert recorded.trace.summary()["failed_requests"] == 3
    assert 5000 in [row["bytes"] for row in recorded.trace.end("cpu").by_tensor()]
    del kept
