"""Tables of a trace, asked by the engines that people have: the same answers as ours."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.checkout import ROOT

from floodmark.reports.trace import Trace

duckdb = pytest.importorskip("duckdb")
polars = pytest.importorskip("polars")

ZOO = ROOT / "fixtures" / "recordings" / "zoo"
GUIDE = ROOT / "docs" / "guides" / "other-tools.md"
RANKS = ("bert_amp", "lstm", "neumf")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """Three ranks, recorded on a GPU, and their tables."""
    folder = tmp_path_factory.mktemp("tables")
    (folder / "run").mkdir()
    for rank, name in enumerate(RANKS):
        link = folder / "run" / f"rank-{rank:04}.pickle.gz"
        link.symlink_to(ZOO / f"{name}.pickle.gz")
    for form in ("parquet", "arrow"):
        command = [sys.executable, "-m", "floodmark", "export", "run", "--to", form]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


def traces() -> list[Trace]:
    return [Trace.open(ZOO / f"{name}.pickle.gz") for name in RANKS]


def test_what_was_live_at_the_peak_is_the_peak_to_the_byte(run):
    found = duckdb.sql(f"""
        SELECT rank, sum(bytes) FROM '{run}/run.parquet/rank=*/allocations.parquet'
        WHERE at_peak AND device = 'cuda:0' GROUP BY rank ORDER BY rank
    """).fetchall()
    untold = duckdb.sql(f"""
        SELECT rank, peak, peak_unattributed FROM '{run}/run.parquet/_ranks.parquet'
        WHERE device = 'cuda:0' ORDER BY rank
    """).fetchall()
    peaks = [trace.peak("cuda:0").by_line().allocated for trace in traces()]
    assert [bytes + row[2] for (_, bytes), row in zip(found, untold, strict=True)] == peaks
    assert [row[1] for row in untold] == peaks
    measured = [json.loads((ZOO / f"{name}.json").read_text()) for name in RANKS]
    torchs = [max(p["peak"] for s in m["steps"] for p in s.values() if isinstance(p, dict))
              for m in measured]  # fmt: skip
    assert peaks == torchs


def test_lines_at_the_peak_are_those_of_the_report(run):
    found = duckdb.sql(f"""
        SELECT location, sum(bytes) AS bytes, count(*) FROM
        '{run}/run.parquet/rank=*/allocations.parquet'
        WHERE at_peak AND device = 'cuda:0' AND rank = 0
        GROUP BY location ORDER BY bytes DESC, location
    """).fetchall()
    report = traces()[0].report(by="line", at="peak", device="cuda:0", top=None)
    assert found == [(row["location"], row["bytes"], row["count"]) for row in report]


def test_levels_after_events_are_torchs(run):
    """The highest allocated and reserved of all events, and the last, as torch had them."""
    events = polars.scan_ipc(f"{run}/run.arrow/rank=*/events.arrow", hive_partitioning=True)
    of = (
        events.filter(polars.col("device") == "cuda:0")
        .group_by("rank")
        .agg(polars.max("allocated"), polars.max("reserved"))
        .sort("rank")
        .collect()
    )
    for row, name in zip(of.iter_rows(named=True), RANKS, strict=True):
        measured = json.loads((ZOO / f"{name}.json").read_text())
        phases = [p for s in measured["steps"] for p in s.values() if isinstance(p, dict)]
        assert row["allocated"] == max(phase["peak"] for phase in phases)
        assert row["reserved"] == max(phase["peak_reserved"] for phase in phases)


def test_both_codings_hold_the_same(run):
    dataset = pytest.importorskip("pyarrow.dataset")
    names = ("events", "allocations", "stacks", "frames", "modules", "phases", "segments", "steps")
    for name in names:
        tables = []
        for form, kind in (("parquet", "parquet"), ("arrow", "ipc")):
            paths = sorted(map(str, run.glob(f"run.{form}/rank=*/{name}.{form}")))
            tables.append(polars.from_arrow(dataset.dataset(paths, format=kind).to_table()))
        parquet, arrow = tables
        assert len(parquet) > 0
        assert parquet.equals(arrow)


def test_frames_of_stacks_are_those_of_the_report(run):
    frames = duckdb.sql(f"""
        WITH largest AS (
            SELECT stack, sum(bytes) AS bytes FROM '{run}/run.parquet/rank=0/allocations.parquet'
            WHERE at_peak AND device = 'cuda:0' AND NOT backward AND NOT before_recording
            GROUP BY stack ORDER BY bytes DESC, stack LIMIT 1
        ), numbers AS (
            SELECT unnest(frames) AS frame, generate_subscripts(frames, 1) AS depth
            FROM '{run}/run.parquet/rank=0/stacks.parquet' JOIN largest USING (stack)
        )
        SELECT file, line, function FROM numbers
        JOIN '{run}/run.parquet/rank=0/frames.parquet' USING (frame) ORDER BY depth
    """).fetchall()
    report = traces()[0].report(by="stack", at="peak", device="cuda:0", top=None, torch_frames=True)
    stacks = [[(f["file"], f["line"], f["function"]) for f in row["frames"]] for row in report]
    assert frames in stacks


def test_rows_are_in_the_order_of_time(run):
    parquet = pytest.importorskip("pyarrow.parquet")
    file = parquet.ParquetFile(run / "run.parquet" / "rank=0" / "events.parquet")
    numbers = file.read(["event"])["event"].to_pylist()
    assert numbers == sorted(numbers)
    group = file.metadata.row_group(0)
    assert group.column(0).compression == "ZSTD"
    assert group.sorting_columns[0].column_index == 0
    assert file.metadata.created_by.startswith("floodmark ")


def examples(language: str) -> list[str]:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)
    return [block for block in blocks if f"import {language}" in block]


@pytest.mark.parametrize("language", ["duckdb", "polars"])
def test_examples_of_the_guide_run_as_they_stand(language, run, monkeypatch, capsys):
    monkeypatch.chdir(run)
    blocks = examples(language)
    assert blocks
    for block in blocks:
        exec(compile(block, str(GUIDE), "exec"), {"__name__": "guide"})
    said = capsys.readouterr().out
    peak = max(trace.peak("cuda:0").by_line().allocated for trace in traces())
    assert str(peak) in said.replace("_", "").replace(",", "")
