"""A program with activation checkpoints: torch's own memory history ends it with a SystemError."""

from __future__ import annotations

from support.checkout import ROOT
from support.phantoms import needs_cuda_build

import floodmark

PROGRAM = """
    import torch
    from torch.nn import functional as F
    from torch.utils.checkpoint import checkpoint
    from train_gpt import GPT, Block, ModelConfig

    forward = Block.forward
    Block.forward = lambda self, x: checkpoint(forward, self, x, use_reentrant=False)
    model = GPT(ModelConfig(512, context=128, layers=4, heads=4, width=128, dropout=0.1)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        ids = torch.randint(0, 512, (8, 129), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
"""


@needs_cuda_build
def test_checkpoints_under_autocast_are_recorded_to_the_end(programs):
    programs.write(PROGRAM, "train.py")
    found = {"PYTHONPATH": str(ROOT / "examples")}
    done = programs.floodmark("estimate", "-o", "a.flood", "train.py", env=found)
    assert done.returncode == 0, done.stderr
    trace = floodmark.Trace.open(programs.folder / "a.flood")
    assert trace.estimate().to_dict()["steps"] == 2
    # The recomputed forward pass belongs to the modules that it runs in.
    modules = {row["location"].strip() for row in trace.report(by="module", top=None)}
    assert {"blocks.0", "blocks.3"} <= modules
