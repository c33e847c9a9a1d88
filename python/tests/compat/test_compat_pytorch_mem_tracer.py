"""Every call of pytorch_mem_tracer, against torch's own counters."""

from __future__ import annotations

import json
import re

import pytest
import torch
from support.compat_programs import ON_A_PHANTOM, ON_THE_CPU, PROFILED, TELL, source
from support.phantoms import needs_cuda_build

from floodmark_compat import pytorch_mem_tracer

NAME = "lines_at_peak"
HEAD = "Mem, Cumulative Mem, Median, Count, Location"
UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
SIZE = r"(\d[\d.]{0,4}) (B|KB|MB|GB|TB)"
ROW = re.compile(rf"{SIZE}  {SIZE}  {SIZE}  (\d+)  (.+)")


def size(number: str, unit: str) -> float:
    return float(number) * UNITS[unit]


def read(text: str) -> tuple[float, float, list[tuple[float, float, float, int, str]]]:
    """The printed table, line by line in the tool's layout."""
    most, total, head, *rows = text.splitlines()
    assert head == HEAD
    found = []
    for row in rows:
        match = ROW.fullmatch(row)
        assert match, row
        *sizes, count, where = match.groups()
        each = [size(*sizes[at : at + 2]) for at in (0, 2, 4)]
        found.append((each[0], each[1], each[2], int(count), where))
    heads = []
    for line, name in ((most, "Max mem"), (total, "Total mem allocated")):
        match = re.fullmatch(rf"{name}: {SIZE}", line)
        assert match, line
        heads.append(size(*match.groups()))
    return heads[0], heads[1], found


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0.000 B"),
        (512, "512.0 B"),
        (5 << 10, "5.000 KB"),
        (16 << 20, "16.00 MB"),
        (int(13.54 * (1 << 30)), "13.54 GB"),
        (1000 << 30, "1000 GB"),
        (2000 << 30, "1.953 TB"),
    ],
)
def test_sizes_have_four_digits(count, text):
    assert pytorch_mem_tracer._readable(count) == text


def test_as_many_rows_as_are_asked_for(capsys):
    pytorch_mem_tracer.start_tracing()
    large = torch.empty(1 << 22, dtype=torch.uint8)
    small = torch.empty(1 << 21, dtype=torch.uint8)
    pytorch_mem_tracer.stop_tracing()
    pytorch_mem_tracer.report_stats("cpu")
    whole = capsys.readouterr().out.splitlines()
    pytorch_mem_tracer.report_stats(device=torch.device("cpu"), top=1)
    *shown, rest = capsys.readouterr().out.splitlines()
    assert shown == whole[:4]
    assert shown[3].startswith("4.000 MB  4.000 MB  4.000 MB  1  ")
    assert rest == f"... {len(whole) - 4} more"
    with pytest.raises(ValueError, match="top must be a positive integer, not 0"):
        pytorch_mem_tracer.report_stats("cpu", top=0)
    assert large.numel() > small.numel()


@needs_cuda_build
def test_the_table_agrees_with_torchs_counters(programs):
    measure = """
mixer, rows = program.prepare("cuda")
torch.cuda.reset_peak_memory_stats()
segments = torch.cuda.memory._snapshot()["segments"]
states = [block["state"] for segment in segments for block in segment["blocks"]]
total = torch.cuda.memory_stats()["allocated_bytes.all.allocated"]
facts = {"before": torch.cuda.memory_allocated(), "blocks": states.count("active_allocated")}
program.trace(mixer, rows)
stats = torch.cuda.memory_stats()
facts["peak"] = stats["allocated_bytes.all.peak"]
facts["total"] = facts["before"] + stats["allocated_bytes.all.allocated"] - total
"""
    done = programs.run(source(ON_A_PHANTOM, NAME, measure, TELL))
    torchs = json.loads(done.stderr.splitlines()[-1])
    most, total, rows = read(done.stdout)
    assert most == pytest.approx(torchs["peak"], rel=1e-3)
    assert total == pytest.approx(torchs["total"], rel=1e-3)
    assert [row[0] for row in rows] == sorted((row[0] for row in rows), reverse=True)
    assert rows[-1][1] == pytest.approx(torchs["peak"], rel=1e-3)
    untraced = next(row for row in rows if row[4] == "untraced")
    assert untraced[0] == pytest.approx(torchs["before"], rel=1e-3)
    # Weights, biases and the batch; older versions than torch 2.15 have workspaces too.
    assert untraced[3] == torchs["blocks"] >= 5
    places = [row[4] for row in rows]
    assert any(re.search(rf"{NAME}\.py:\d+ \(forward\)$", place) for place in places)
    assert any(re.search(r"torch/nn/modules/linear\.py:\d+ \(forward\)", p) for p in places)
    assert any(place.endswith("(forward) backward") for place in places)


def test_the_table_agrees_with_the_profiler_on_the_cpu(programs):
    measure = """
mixer, rows = program.prepare("cpu")
peak, total = profiled(lambda: program.section(mixer, rows))
mixer.zero_grad()
base = sum(t.untyped_storage().nbytes() for t in [*mixer.parameters(), rows])
facts = {"peak": base + peak, "total": base + total, "base": base}
program.trace(mixer, rows)
"""
    done = programs.run(source(ON_THE_CPU + PROFILED, NAME, measure, TELL))
    theirs = json.loads(done.stderr.splitlines()[-1])
    most, total, rows = read(done.stdout)
    untraced = next(row for row in rows if row[4] == "untraced")
    # Small tensors that torch itself keeps may be there too.
    assert untraced[0] == pytest.approx(theirs["base"], rel=1e-2)
    assert most == pytest.approx(theirs["peak"], rel=1e-2)
    assert total == pytest.approx(theirs["total"], rel=1e-2)


def test_a_report_without_a_trace_says_what_to_do(programs):
    done = programs.python(
        "-c", "from floodmark_compat.pytorch_mem_tracer import *; report_stats()"
    )
    assert done.returncode == 1
    assert "call start_tracing() first" in done.stderr
