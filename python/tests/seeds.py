"""The documents that `floodmark.compat` answers to: their code blocks, as programs."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "fixtures" / "seeds"

#: A phantom GPU, so that torch's own caching allocator counts beside us.
ON_A_PHANTOM = """
import floodmark
with floodmark.phantom("h200"):
    import torch
"""
ON_THE_CPU = "import torch\n"


def blocks(name: str, language: str = "") -> list[str]:
    """The fenced blocks of a document, in order; with a language, those of it."""
    text = (FOLDER / f"{name}.txt").read_text()
    found = re.findall(r"^ *```[ ]*(\w*)\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    return [code for kind, code in found if not language or kind.lower() == language]


def without_cuda(code: str) -> str:
    """The same program where there is no CUDA."""
    return (
        code.replace(".cuda()", "")
        .replace("torch.cuda.synchronize()", "None")
        .replace('"cuda:0"', '"cpu"')
    )


#: `profiled(run)`: the highest stand and the sum of what `run` allocates on the CPU, as torch's
#: profiler tells it.
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
