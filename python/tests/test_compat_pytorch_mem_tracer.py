"""The README of pytorch_mem_tracer, run as it stands, against torch's own counters."""

from __future__ import annotations

import json
import re

import pytest
from phantoms import needs_cuda_build
from seeds import ON_A_PHANTOM, ON_THE_CPU, PROFILED, blocks, without_cuda

from floodmark.compat import pytorch_mem_tracer

CODE, TABLE = blocks("pytorch_mem_tracer")
UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
SIZE = r"(\d[\d.]{0,4}) (B|KB|MB|GB|TB)"
ROW = re.compile(rf"{SIZE}  {SIZE}  {SIZE}  (\d+)  (.+)")

MODEL = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(256, 1024)
        self.down = torch.nn.Linear(1024, 256)

    def forward(self, x):
        hidden = torch.softmax(self.up(x), dim=-1)
        return self.down(hidden)

def traced(x):
    out = network(x)
    out.sum().backward()

model = traced
"""
MAKE = """
network = Net().cuda()
args = torch.randn(512, 256).cuda()
"""


def program(start: str, measure: str) -> str:
    """The README's code: its first block switches before any tensor, the rest is around `model`."""
    assert "import pytorch_mem_tracer as mem_tracer\n" in CODE
    code = CODE.replace(
        "import pytorch_mem_tracer as", "import floodmark.compat.pytorch_mem_tracer as"
    )
    first, around = code.split("# Around the function")
    return start + first + MODEL + MAKE + measure.format(around="# Around the function" + around)


def size(number: str, unit: str) -> float:
    return float(number) * UNITS[unit]


def read(text: str) -> tuple[float, float, list[tuple[float, float, float, int, str]]]:
    """The printed table, line by line in the README's layout."""
    most, total, head, *rows = text.splitlines()
    assert head == TABLE.splitlines()[2]
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


def test_the_readmes_own_table_has_the_layout_that_is_checked():
    most, total, rows = read("\n".join(TABLE.splitlines()[:-1]))
    assert most == 13.54 * UNITS["GB"]
    assert total == 27.16 * UNITS["GB"]
    assert len(rows) == 19


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


@needs_cuda_build
def test_the_readme_runs_and_agrees_with_torchs_counters(programs):
    measure = """
{around}
import json, sys
stats = torch.cuda.memory_stats()
print(json.dumps({{
    "peak": stats["allocated_bytes.all.peak"], "total": stats["allocated_bytes.all.allocated"],
    "before": before,
}}), file=sys.stderr)
"""
    measure = "\nbefore = torch.cuda.memory_allocated()\n" + measure
    done = programs.run(program(ON_A_PHANTOM, measure))
    torchs = json.loads(done.stderr.splitlines()[-1])
    most, total, rows = read(done.stdout)
    assert most == pytest.approx(torchs["peak"], rel=1e-3)
    assert total == pytest.approx(torchs["total"], rel=1e-3)
    assert [row[0] for row in rows] == sorted((row[0] for row in rows), reverse=True)
    assert rows[-1][1] == pytest.approx(torchs["peak"], rel=1e-3)
    untraced = next(row for row in rows if row[4] == "untraced")
    assert untraced[0] == pytest.approx(torchs["before"], rel=1e-3)
    # Two weights, two biases and the input.
    assert untraced[3] == 5
    places = [row[4] for row in rows]
    assert any(re.fullmatch(r"program\.py:\d+ \(forward\)", place) for place in places)
    assert any(re.search(r"torch/nn/modules/linear\.py:\d+ \(forward\)", p) for p in places)
    assert any(place.endswith("(forward) backward") for place in places)


def test_the_readme_runs_on_the_cpu_and_agrees_with_the_profiler(programs):
    measure = """
import json, sys
network(args).sum().backward()
network.zero_grad()
peak, total = profiled(lambda: model(args))
network.zero_grad()
base = sum(t.untyped_storage().nbytes() for t in [*network.parameters(), args])
print(json.dumps({{"peak": base + peak, "total": base + total, "base": base}}), file=sys.stderr)
{around}
"""
    done = programs.run(without_cuda(program(ON_THE_CPU + PROFILED, measure)))
    theirs = json.loads(done.stderr.splitlines()[-1])
    most, total, rows = read(done.stdout)
    untraced = next(row for row in rows if row[4] == "untraced")
    # Small tensors that torch itself keeps may be there too.
    assert untraced[0] == pytest.approx(theirs["base"], rel=1e-2)
    assert most == pytest.approx(theirs["peak"], rel=1e-2)
    assert total == pytest.approx(theirs["total"], rel=1e-2)


def test_a_report_without_a_trace_says_what_to_do(programs):
    done = programs.python(
        "-c", "from floodmark.compat.pytorch_mem_tracer import *; report_stats()"
    )
    assert done.returncode == 1
    assert "call start_tracing() first" in done.stderr
