"""Where frames cannot be read, Python is asked for them: slower, and with the same answer."""

from __future__ import annotations

import json

PROGRAM = """
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Linear(64, 256)

        def forward(self, x):
            return torch.relu(self.up(x))

    def main():
        model = nn.Sequential(Block(), nn.Linear(256, 8))
        for _ in range(3):
            model(torch.ones(32, 64)).square().sum().backward()

    main()
"""


def answers(programs, name, **env):
    """What is at the peak by line and by module, and what is said of it."""
    ran = programs.floodmark("run", "-o", name, "program.py", env=env)
    assert ran.returncode == 0, ran.stderr
    found = []
    for by in ("line", "module"):
        shown = programs.floodmark("report", name, "--by", by, "--json", "--top", "0")
        report = json.loads(shown.stdout)
        # Python's own functions know no qualified names before 3.11.
        places = [row["location"].replace("Block.", "") for row in report["rows"]]
        found.append(sorted(zip(places, (row["bytes"] for row in report["rows"]), strict=True)))
    return found, report["losses"]


def test_the_slow_way_gives_the_same_lines_and_modules(programs):
    programs.write(PROGRAM)
    fast, nothing = answers(programs, "fast.flood")
    slow, remarks = answers(programs, "slow.flood", FLOODMARK_STACKS="slow")
    assert slow == fast
    assert nothing == []
    assert len(remarks) == 1
    assert remarks[0].startswith("stacks are read slowly")
