"""Every format of a recording with hostile names is still read by its reader."""

from __future__ import annotations

import csv
import io
import json
import pickle
import subprocess
import sys
import unicodedata
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from support.formats import FORMATS, HOSTILE, hostile_trace, png_size
from support.terminal import Terminal

from floodmark.reports.trace import Trace


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def trace(folder) -> Trace:
    return hostile_trace(folder)


def peak(trace: Trace) -> int:
    return trace.peak("cpu").by_line().allocated


def read_torch_snapshot(path: Path, trace: Trace) -> None:
    from torch.cuda import _memory_viz

    snapshot = pickle.loads(path.read_bytes())
    frames = [
        frame
        for events in snapshot["device_traces"]
        for event in events
        for frame in event.get("frames", ())
    ]
    assert set(HOSTILE) <= {frame["name"] for frame in frames}
    assert "</html>" in _memory_viz.trace_plot(snapshot) or _memory_viz.segsum(snapshot)


def read_json(path: Path, trace: Trace) -> None:
    assert HOSTILE[0] in json.dumps(json.loads(path.read_text()), ensure_ascii=False).replace(
        "\\\\", "\\"
    ).replace('\\"', '"')


def read_svg(path: Path, trace: Trace) -> None:
    root = ElementTree.parse(path).getroot()
    tags = {element.tag.split("}")[1] for element in root.iter()}
    assert "text" in tags
    for script in root.iter("{http://www.w3.org/2000/svg}script"):
        assert "alert" not in (script.text or "")


def read_png(path: Path, trace: Trace) -> None:
    assert png_size(path.read_bytes()) == (2200, 1080)


def read_csv(path: Path, trace: Trace) -> None:
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert rows
    assert {len(row) for row in rows} == {len(header)}


def read_collapsed(path: Path, trace: Trace) -> None:
    lines = path.read_text().splitlines()
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == peak(trace)


def read_perfetto(path: Path, trace: Trace) -> None:
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    file = protos.Trace()
    file.ParseFromString(path.read_bytes())
    names = {name.name for packet in file.packet for name in packet.interned_data.event_names}
    assert set(HOSTILE) <= names


def read_parquet(path: Path, trace: Trace) -> None:
    duckdb = pytest.importorskip("duckdb")
    tables = f"{path}/rank=*/%s.parquet"
    phases = duckdb.sql(f"SELECT DISTINCT phase FROM '{tables % 'allocations'}'").fetchall()
    assert set(HOSTILE) <= {phase for (phase,) in phases}
    marks = duckdb.sql(f"SELECT name FROM '{tables % 'events'}' WHERE kind = 'mark'").fetchall()
    assert [name for (name,) in marks] == list(HOSTILE) * 2


def read_arrow(path: Path, trace: Trace) -> None:
    feather = pytest.importorskip("pyarrow.feather")
    events = feather.read_table(path / "rank=0" / "events.arrow").to_pylist()
    assert [row["name"] for row in events if row["kind"] == "mark"] == list(HOSTILE) * 2


def read_tensorboard(path: Path, trace: Trace) -> None:
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    ).EventAccumulator(str(path))
    accumulator.Reload()
    tags = accumulator.Tags()["tensors"]
    assert {f"memory/cpu/phases/{name.replace(' ', '_')}" for name in HOSTILE} <= set(tags)


READERS = {
    "torch-snapshot": read_torch_snapshot,
    "speedscope": read_json,
    "perfetto": read_perfetto,
    "chrome": read_json,
    "timeline": lambda path, trace: json.loads(path.read_text()),
    "svg": read_svg,
    "png": read_png,
    "csv": read_csv,
    "csv-steps": read_csv,
    "collapsed": read_collapsed,
    "flamegraph": read_svg,
    "parquet": read_parquet,
    "arrow": read_arrow,
    "tensorboard": read_tensorboard,
}


@pytest.mark.parametrize("form", FORMATS)
def test_a_format_is_read_by_its_reader_whatever_the_names_are(form, trace, tmp_path):
    path = tmp_path / "out"
    trace.export(path, form)
    READERS[form](path, trace)
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_every_format_is_in_the_list_above():
    command = [sys.executable, "-m", "floodmark", "export", "x", "--to", "?"]
    said = subprocess.run(command, capture_output=True, text=True).stderr
    listed = said.split("possible values: ", 1)[1].split("]")[0].split(", ")
    # The page is tested in a browser.
    assert set(listed) - {"html"} == set(FORMATS)


REPORT = ("report", "--csv", "--by", "line", "--top", "0")
EVENTS = ("export", "--to", "csv", "-o", "-")


@pytest.mark.parametrize("words", [REPORT, EVENTS], ids=["report", "export"])
def test_csv_in_a_pipe_has_the_names_as_they_are(words, trace, folder):
    command = [sys.executable, "-m", "floodmark", *words, str(folder / "hostile.flood")]
    done = subprocess.run(command, capture_output=True, check=True)
    written = done.stdout.decode()
    expected = set(HOSTILE)
    # An export has no NUL: it ends a file for some of its readers. So it does for Python 3.10.
    if words is EVENTS or sys.version_info < (3, 11):
        written = written.replace("\0", "\ufffd")
        expected = {name.replace("\0", "\ufffd") for name in HOSTILE}
    if words is EVENTS:
        assert "\0" not in done.stdout.decode()
    rows = list(csv.DictReader(io.StringIO(written, newline="")))
    assert expected <= {row["function"] for row in rows}


@pytest.mark.parametrize("words", [REPORT, EVENTS], ids=["report", "export"])
def test_csv_on_a_terminal_is_obeyed_by_nothing(words, trace, folder):
    terminal = Terminal((*words, str(folder / "hostile.flood")), columns=200, lines=50)
    try:
        assert terminal.wait() == 0
    finally:
        terminal.close()
    text = terminal.written.decode()
    assert "␛[31m red ␇" in text
    assert ",'=1+1" in text
    assert ",=1+1" not in text
    # Ends of lines, and a tab where a cell is not the terminal's own.
    left = {letter for letter in text if unicodedata.category(letter) in ("Cc", "Cf")}
    assert left <= {"\r", "\n", "\t"}


def test_json_on_a_terminal_is_the_same_document(trace, folder):
    words = ("report", "--json", "--top", "0", str(folder / "hostile.flood"))
    piped = subprocess.run([sys.executable, "-m", "floodmark", *words], capture_output=True)
    terminal = Terminal(words, columns=200, lines=50)
    try:
        assert terminal.wait() == 0
    finally:
        terminal.close()
    text = terminal.written.decode()
    assert json.loads(text) == json.loads(piped.stdout)
    assert not {letter for letter in text if unicodedata.category(letter) in ("Cc", "Cf")} - {
        "\r",
        "\n",
    }


def test_a_csv_file_has_no_formula(trace, tmp_path):
    trace.export(tmp_path / "out.csv", "csv")
    with open(tmp_path / "out.csv", newline="", encoding="utf-8") as file:
        cells = {cell for row in csv.reader(file) for cell in row}
    assert "'=1+1" in cells
    assert "=1+1" not in cells
