"""All memory of a simulated GPU by owner, from what its NVML says."""

from __future__ import annotations

import json

import pytest
from support.answer_schema import check_answer
from support.phantoms import needs_cuda_build

import floodmark

pytestmark = needs_cuda_build

#: Writes what CUDA and torch say of each GPU.
ENDING = """
def facts_of(device):
    free, total = torch.cuda.mem_get_info(device)
    return {
        "total": total,
        "used": total - free,
        "reserved": torch.cuda.memory_reserved(device),
        "allocated": torch.cuda.memory_allocated(device),
    }

def write_facts():
    facts = [facts_of(device) for device in range(torch.cuda.device_count())]
    with open("facts.json", "w") as file:
        json.dump(facts, file)
"""

TRAINING = (
    "import json, torch"
    + ENDING
    + """
layer = torch.nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.AdamW(layer.parameters())
for _ in range(3):
    layer(torch.randn(4096, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
write_facts()
"""
)

#: The second GPU of four is `cuda:1`, the last one `cuda:0`.
CHOSEN = (
    "import json, os\nos.environ['CUDA_VISIBLE_DEVICES'] = '3,1'\nimport torch"
    + ENDING
    + """
sizes = {"cuda:0": 64 << 20, "cuda:1": 40 << 20}
kept = [torch.zeros(n, dtype=torch.uint8, device=device) for device, n in sizes.items()]
write_facts()
"""
)

FAILING = (
    "import json, torch"
    + ENDING
    + """
kept = torch.zeros(1 << 30, dtype=torch.uint8, device="cuda")
write_facts()
try:
    torch.zeros(1 << 50, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    import time
    time.sleep(0.5)
    more = torch.zeros(1 << 30, dtype=torch.uint8, device="cuda")
"""
)


def recorded(programs, source, *options):
    """The trace of a program on a simulated GPU, and what the program has seen there."""
    programs.write(source, "program.py")
    words = ("estimate", "-q", "--no-rerun", "-o", "a.flood", *options, "program.py")
    done = programs.floodmark(*words)
    assert (programs.folder / "facts.json").exists(), done.stderr
    facts = json.loads((programs.folder / "facts.json").read_text())
    return floodmark.Trace.open(programs.folder / "a.flood"), facts


def check(ledger, facts):
    """The ledger adds up to what CUDA says, to the byte."""
    assert sum(row["bytes"] for row in ledger) == ledger.used == facts["used"]
    assert ledger.total == facts["total"]
    found = ledger.to_dict()
    assert (found["reserved"], found["allocated"]) == (facts["reserved"], facts["allocated"])
    assert ledger.outside_torch == facts["used"] - facts["reserved"]
    assert ledger.unexplained == 0
    assert ledger.notes == []
    cached = [row["bytes"] for row in ledger if row["owner"] == "torch_cached"]
    assert cached == [facts["reserved"] - facts["allocated"]]


def test_the_owners_add_up_to_what_cuda_says(programs):
    trace, [facts] = recorded(programs, TRAINING)
    check(trace.ledger(at="end"), facts)
    peak = trace.ledger()
    categories = {row["category"] for row in peak if row["owner"] == "torch_allocated"}
    assert {"parameter", "activation"} <= categories
    allocated = sum(row["bytes"] for row in peak if row["owner"] == "torch_allocated")
    assert allocated == trace.peak("cuda:0").by_line().allocated
    assert sum(row["bytes"] for row in peak) == peak.used
    assert peak.unexplained == 0
    times = [point["seconds"] for point in peak.over_time]
    assert times == sorted(times)
    last = peak.over_time[-1]
    assert (last["used"], last["reserved"]) == (facts["used"], facts["reserved"])
    assert last["other_processes"] == 0


def test_the_command_prints_the_same(programs):
    _, [facts] = recorded(programs, TRAINING)
    done = programs.floodmark("ledger", "a.flood", "--at", "end", "--json")
    found = json.loads(done.stdout)
    check_answer("ledger", found)
    assert found["used"] == facts["used"]
    done = programs.floodmark("ledger", "a.flood", "--at", "end")
    first, *rest = done.stdout.splitlines()
    assert first.startswith("In use on cuda:0: ")
    assert first.endswith(" 0 B unexplained")
    assert any(line.endswith("torch, allocated: parameter") for line in rest), done.stdout


def test_each_gpu_that_the_program_sees_has_its_own_memory(programs):
    trace, facts = recorded(programs, CHOSEN, "--gpus", "4")
    for device, expected in enumerate(facts):
        check(trace.ledger(at="end", device=f"cuda:{device}"), expected)
    assert facts[0]["used"] != facts[1]["used"]


def test_a_failed_allocation_has_a_ledger(programs):
    trace, [facts] = recorded(programs, FAILING)
    ledger = trace.ledger(at="oom")
    check(ledger, facts)
    assert trace.ledger(at="end").used > facts["used"]


def test_a_recording_without_nvml_says_so(programs):
    programs.write("import torch\nkept = torch.ones(1000)", "host.py")
    assert programs.floodmark("run", "-q", "-o", "host.flood", "host.py").returncode == 0
    done = programs.floodmark("ledger", "host.flood")
    assert done.returncode == 1
    assert "NVML was not asked" in done.stderr
    with pytest.raises(floodmark.FloodmarkError, match="NVML was not asked"):
        floodmark.Trace.open(programs.folder / "host.flood").ledger()
