"""Reports are values: they iterate, convert, print, and fail with words."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

import floodmark

GROUPINGS = ("line", "stack", "module", "op", "phase", "category", "tensor", "step")


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("reports") / "a.flood"
    with floodmark.trace(path):
        model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
        for _ in range(2):
            model(torch.randn(16, 32)).sum().backward()
            floodmark.step()
        floodmark.mark("<b>done</b>")
    return path


@pytest.fixture(scope="module")
def trace(path):
    return floodmark.Trace.open(path)


@pytest.mark.parametrize("by", GROUPINGS)
def test_every_report_keeps_the_contract(trace, by):
    report = trace.report(by=by, at="peak", device="cpu", top=None)
    printed = json.loads(report.to_json())
    assert printed == report.to_dict()
    assert printed["floodmark"] == floodmark.__version__
    assert printed["format"] == 1
    assert printed["device"] == "cpu"
    assert {"seconds", "step", "phase", "module"} <= set(printed["at"])
    assert type(printed["allocated"]) is int
    assert printed["reserved"] is None
    assert printed["requested"] is None or type(printed["requested"]) is int
    assert printed["losses"] == []
    for row in printed["rows"]:
        assert {"bytes", "cumulative", "count", "median", "location"} <= set(row)
        assert all(type(row[key]) is int for key in ("bytes", "cumulative", "count", "median"))
        assert type(row["location"]) is str
    total = sum(row.get("own", row["bytes"]) for row in printed["rows"])
    assert total == printed["allocated"]
    assert printed["rows"][-1]["cumulative"] == printed["allocated"]


def test_a_report_iterates_and_has_a_length(trace):
    report = trace.peak("cpu").by_line(top=3)
    assert len(report) == len(list(report)) == len(report.rows) == 3
    assert report[0] == next(iter(report))
    assert report[0]["bytes"] >= report[1]["bytes"] >= report[2]["bytes"]
    assert report.device == "cpu"
    assert report.reserved is None


def test_a_report_prints_as_a_table_and_shows_as_one(trace):
    report = trace.peak("cpu").by_line()
    assert str(report) == repr(report)
    assert "test_reports.py" in str(report)
    html = report._repr_html_()
    assert "<table" in html
    assert "http" not in html
    assert "<script" not in html
    by_name = trace.report(by="phase", at="end", device="cpu")._repr_html_()
    assert "<b>done</b>" not in by_name


def test_a_report_goes_to_arrow_pandas_and_polars(trace):
    report = trace.peak("cpu").by_line(top=None)
    pyarrow = pytest.importorskip("pyarrow")
    table = report.to_arrow()
    assert table.column("bytes").to_pylist() == [row["bytes"] for row in report]
    assert table.column("location").to_pylist() == [row["location"] for row in report]
    assert pyarrow.types.is_integer(table.schema.field("bytes").type)
    pytest.importorskip("pandas")
    assert report.to_pandas()["bytes"].sum() == report.allocated
    polars = pytest.importorskip("polars")
    assert report.to_polars()["bytes"].sum() == report.allocated
    assert polars.DataFrame(report).height == len(report)


GROUPINGS = ["line", "stack", "module", "op", "phase", "category", "tensor", "step"]


@pytest.mark.parametrize("by", GROUPINGS)
def test_a_table_has_every_column_of_the_rows(trace, by):
    pytest.importorskip("pyarrow")
    report = trace.report(by=by, device="cpu", top=None)
    rows = [dict(row) for row in report]
    assert rows
    for row in rows:
        # What is an object in JSON is a list in a table.
        if by == "step":
            row["phases"] = [{"phase": key, "peak": peak} for key, peak in row["phases"].items()]
            found = row["categories"].items()
            row["categories"] = [{"category": key, "bytes": bytes_} for key, bytes_ in found]
    assert report.to_arrow().to_pylist() == rows
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(report).columns == list(rows[0])


def test_a_question_that_makes_no_sense_is_answered_with_the_way_out(trace):
    with pytest.raises(ValueError, match="`line`, `stack`"):
        trace.report(by="colour")
    with pytest.raises(ValueError, match="peak"):
        trace.report(at="noon")
    with pytest.raises(ValueError, match="no such device"):
        trace.report(device="gpu")
    with pytest.raises(floodmark.FloodmarkError, match=r"(?s)cuda:0.*hint"):
        trace.report(device="cuda:0")
    with pytest.raises(floodmark.FloodmarkError, match="hint"):
        trace.oom("cpu").by_line()


def test_a_file_that_is_no_trace_is_said_so(tmp_path, path):
    with pytest.raises(FileNotFoundError, match="missing"):
        floodmark.Trace.open(tmp_path / "missing.flood")
    with pytest.raises(floodmark.FloodmarkError, match="folder, not a regular file"):
        floodmark.Trace.open(tmp_path)
    other = tmp_path / "other.flood"
    for content in (b"", b"hello", b"\x80\x04]\x94.", b"FLOD\xff\xff\0\0"):
        other.write_bytes(content)
        with pytest.raises(floodmark.FloodmarkError, match="hint"):
            floodmark.Trace.open(other)
    whole = path.read_bytes()
    other.write_bytes(whole[: len(whole) // 2])
    assert floodmark.Trace.open(other).summary()["losses"]


def test_an_old_moment_can_be_asked_for(trace):
    seconds = trace.summary()["seconds"]
    early = trace.at(0.0, "cpu").by_line()
    late = trace.at(seconds, "cpu").by_line()
    assert early.allocated <= late.allocated == trace.end("cpu").by_line().allocated


def test_the_command_line_tells_the_same(trace, path, programs):
    printed = programs.floodmark("report", str(path), "--device", "cpu", "--by", "module", "--json")
    assert json.loads(printed.stdout) == trace.report(by="module", device="cpu").to_dict()
    assert printed.stderr == ""
    lines = programs.floodmark("report", str(path), "--csv", "--top", "0").stdout.splitlines()
    assert len(lines) == 1 + len(trace.peak("cpu").by_line(top=None))
    wrong = programs.floodmark("report", str(path), "--device", "cuda:7")
    assert wrong.returncode == 1
    assert "hint" in wrong.stderr
    assert programs.floodmark("info", str(path), "--json").returncode == 0
