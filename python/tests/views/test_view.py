"""`python -m floodmark view`, as a process: it serves, follows, and ends with Ctrl-C."""

from __future__ import annotations

import json
import signal
from typing import Any

import torch
from support.programs import PATIENCE
from support.viewing import answer, opened, viewing

import floodmark


def grown(news: Any) -> Any:
    """The next event that says so."""
    while (line := news.readline()) != b"event: grown\n":
        assert line, "the stream ended"
    return json.loads(news.readline().removeprefix(b"data: "))


def test_a_viewer_answers_and_ends_with_ctrl_c(record):
    with record() as recorded:
        torch.ones(1000)
    with viewing(recorded.path) as (viewer, address):
        assert answer(address, "report?by=line&device=cpu")["allocated"] >= 4000
        viewer.send_signal(signal.SIGINT)
        _, said = viewer.communicate(timeout=PATIENCE)
    assert (viewer.returncode, said) == (0, "showing 1 trace; end with Ctrl-C\n")


def test_a_recording_is_seen_while_it_runs(tmp_path):
    path = tmp_path / "live.flood"
    with floodmark.trace(path, devices="cpu"):
        kept = [torch.ones(1000)]
        floodmark.step()
        with viewing("--follow", path) as (_, address):
            trace = answer(address, "traces")["traces"][0]
            assert not trace["summary"]["is_finished"]
            assert trace["summary"]["losses"] == []
            with opened(address, "follow") as news:
                first = grown(news)
                kept.append(torch.ones(2000))
                floodmark.step()
                # What else is written meanwhile is news, too.
                second = grown(news)
                while second["events"] == first["events"]:
                    second = grown(news)
    assert second["revision"] > first["revision"]
    assert second["seconds"] > first["seconds"]
    del kept


def test_a_trace_is_saved_as_a_page(record, tmp_path):
    with record() as recorded:
        torch.ones(1000)
    recorded.trace.export(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "connect-src 'none'" in page
    assert 'id="floodmark-answers"' in page
