"""Reports are values: they iterate, convert, print, and fail with words."""

from __future__ import annotations

import importlib.util
import json
import sys
from itertools import pairwise

import pytest
import torch
from torch import nn

import floodmark

GROUPINGS = (
    *("line", "stack", "module", "op", "op-call", "parameter"),
    *("phase", "category", "tensor", "step"),
)


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


def test_a_data_frame_needs_no_pyarrow(trace, monkeypatch):
    pytest.importorskip("pandas")
    report = trace.peak("cpu").by_line(top=None)
    expected = report.to_pandas() if importlib.util.find_spec("pyarrow") else None
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    frame = report.to_pandas()
    assert frame["bytes"].sum() == report.allocated
    assert list(frame["location"]) == [row["location"] for row in report]
    if expected is not None:
        assert list(frame.columns) == list(expected.columns)


@pytest.mark.parametrize("library", ["pyarrow", "pandas", "polars"])
def test_a_library_that_is_missing_is_named(trace, monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    method = {"pyarrow": "to_arrow"}.get(library, f"to_{library}")
    with pytest.raises(ModuleNotFoundError, match=rf"{method}\(\) needs {library}: `pip install"):
        getattr(trace.peak("cpu").by_line(), method)()


def test_a_device_may_be_torchs_object(trace):
    cpu = torch.device("cpu")
    assert trace.peak(cpu).by_line().to_dict() == trace.peak("cpu").by_line().to_dict()
    assert trace.report(device=cpu).device == "cpu"
    assert trace.lifetimes(cpu) == trace.lifetimes("cpu")
    assert trace.category_peaks(cpu) == trace.category_peaks("cpu")
    assert trace.diff(trace, device=cpu).device == "cpu"
    with pytest.raises(floodmark.FloodmarkError, match="nothing was recorded on cuda:0"):
        trace.end(torch.device("cuda")).by_line()
    for devices in (cpu, [cpu], (cpu, torch.device("cuda", 1))):
        with floodmark.trace(devices=devices) as recorded:
            kept = torch.ones(1 << 16)
        assert recorded.peak(cpu).by_line().allocated >= kept.nbytes


@pytest.fixture(scope="module")
def called():
    """A model and two calls of one operator at one line, with operators."""
    held = torch.ones(1 << 18)
    with floodmark.trace(devices="cpu", ops=True) as recorded:
        model = nn.Linear(256, 256, bias=False)
        kept = [torch.ones(1 << 18) for _ in range(2)]
        optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
        model(torch.ones(4, 256)).sum().backward()
        optimizer.step()
    assert held.numel() == kept[0].numel()
    return recorded.trace


def test_operator_calls_are_a_series_with_the_growth_of_each(called):
    calls = called.op_calls("cpu")
    assert [call["call"] for call in calls] == list(range(len(calls)))
    [device] = called.summary()["devices"]
    assert sum(call["growth"] for call in calls) == device["end"] - device["start"]
    for before, after in pairwise(calls):
        assert after["end"] - before["end"] == after["growth"]
        assert after["peak"] >= max(before["end"], after["end"])
    # Two calls of one line are two.
    ones = [call for call in calls if call["op"] == "aten::ones" and call["growth"] >= 1 << 20]
    assert [call["growth"] for call in ones] == [1 << 20] * 2
    assert ones[0]["location"] == ones[1]["location"]
    assert "test_reports.py" in ones[0]["location"]
    [forward] = [call for call in calls if call["op"] in ("aten::mm", "aten::addmm")][:1]
    assert (forward["module"], forward["phase"], forward["step"]) == ("Linear", "forward", 0)
    # The table begins with the largest.
    table = called.end("cpu").by_op_call(top=2)
    assert [row["call"] for row in table] == [call["call"] for call in ones]
    lines = str(table).splitlines()
    assert lines[1].split()[:3] == ["Growth", "End", "Peak"]
    assert lines[2].startswith("+1.000 MiB  ")


def test_a_parameter_has_its_gradient_and_its_states(called):
    weight = 256 * 256 * 4
    row = next(row for row in called.end("cpu").by_parameter() if row["parameter"] == "weight")
    assert (row["weight"], row["gradient"], row["optimizer_state"]) == (weight,) * 3
    assert row["bytes"] == 3 * weight
    assert (row["shape"], row["dtype"]) == ("(256, 256)", "float32")
    printed = str(called.end("cpu").by_parameter())
    assert "256.0 KiB  256.0 KiB        256.0 KiB  (256, 256)  float32  weight" in printed


def test_a_summary_has_totals(called):
    [device] = called.summary()["devices"]
    lives = called.lifetimes("cpu")
    before = [life for life in lives if life["phase"] is None]
    assert device["start"] == sum(life["bytes"] for life in before) >= 1 << 20
    everything = sum(life["bytes"] for life in lives)
    assert device["start"] + device["allocated_total"] == everything
    assert device["allocated_total"] > device["end"] - device["start"]


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


def test_a_file_that_is_no_trace_is_an_error(tmp_path, path):
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


def test_an_earlier_time_can_be_reported(trace):
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
