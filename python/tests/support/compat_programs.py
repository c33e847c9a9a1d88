"""The programs in `fixtures/compat`, which use every documented call of five other tools."""

from __future__ import annotations

from support.checkout import FIXTURES

FOLDER = FIXTURES / "compat"

#: A simulated GPU, so that torch's own caching allocator counts beside us.
ON_A_PHANTOM = """
import floodmark
with floodmark.phantom("h200"):
    import torch
"""
ON_THE_CPU = "import torch\n"
#: The programs lie beside each other, and are imported by their names.
IMPORTS = f"import json, sys\nsys.path.insert(0, {str(FOLDER)!r})\n"


def source(start: str, name: str, *lines: str) -> str:
    """A program that imports one of ours and goes on with these lines."""
    return "\n".join([start, IMPORTS, f"import {name} as program", *lines])


#: Writes a value to the last line of stderr.
TELL = "print(json.dumps(facts), file=sys.stderr)\n"

#: `profiled(run)`: the highest level and the sum of what `run` allocates on the CPU, as torch's
#: profiler counts it.
PROFILED = """
from torch.profiler import ProfilerActivity, profile

def profiled(run):
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    waiting = list(profiler.profiler.kineto_results.experimental_event_tree())
    found = []
    while waiting:
        event = waiting.pop()
        waiting.extend(event.children)
        if event.tag.name == "Allocation":
            found.append((event.start_time_ns, event.extra_fields.alloc_size))
    total = peak = now = 0
    for _, size in sorted(found, key=lambda event: event[0]):
        now += size
        peak = max(peak, now)
        total += max(size, 0)
    return peak, total
"""
