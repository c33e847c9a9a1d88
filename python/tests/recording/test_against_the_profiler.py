"""The recorder and `torch.profiler` see the same program: the same sizes in the same order."""

from __future__ import annotations

import pytest
import torch
from support.flood_file import ALLOC, FREE
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint


def profiled(run):
    """The memory events of this thread, as the profiler tells them: bytes, negative for a free."""
    cpu = [ProfilerActivity.CPU]
    with profile(activities=cpu, profile_memory=True, with_stack=False) as profiler:
        run()
    found = []
    waiting = list(profiler.profiler.kineto_results.experimental_event_tree())
    while waiting:
        event = waiting.pop(0)
        waiting[:0] = event.children
        if event.tag.name == "Allocation":
            fields = event.extra_fields
            found.append((event.start_time_ns, event.start_tid, fields.ptr, fields.alloc_size))
    assert len({thread for _, thread, _, _ in found}) == 1
    # Events of one nanosecond stay in the order in which the tree has them.
    return [(address, size) for _, _, address, size in sorted(found, key=lambda event: event[0])]


def only_pairs(events):
    """Without frees of blocks from before: the profiler does not know their size."""
    alive = {}
    kept = []
    for address, size in events:
        if size > 0:
            alive[address] = size
            kept.append(size)
        elif address in alive:
            assert alive.pop(address) == -size
            kept.append(size)
    return kept


def recorded_by_us(recorded):
    kept = []
    for event in recorded.file.events:
        if event.kind == ALLOC:
            kept.append(event.bytes)
        elif event.kind == FREE and not event.of_initial_block:
            kept.append(-event.freed_bytes)
    return kept


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def train():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(50, 16), Block(16), Block(16), nn.Linear(16, 50))
    tokens = torch.randint(0, 50, (4, 12))
    for _ in range(3):
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None


def convolve():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
    out = model(torch.randn(2, 3, 16, 16))
    (out * out).mean().backward()


def attend():
    attention = nn.MultiheadAttention(16, 4, batch_first=True)
    x = torch.randn(2, 10, 16, requires_grad=True)
    checkpoint(lambda y: attention(y, y, y)[0], x, use_reentrant=False).sum().backward()


def odd_things():
    kept = [torch.empty(0), torch.empty(1), torch.ones(3, 5)[1:]]
    kept.append(torch.eye(4).to_sparse().to_dense())
    grown = torch.empty(4).resize_(4000)
    kept.append(torch.linalg.svd(torch.randn(12, 12)))
    kept.append(torch.stft(torch.randn(400), 64, window=torch.ones(64), return_complex=True))
    kept.append(torch.tensor([1, 2, 3]).tolist())
    kept.append(torch.sort(torch.randn(1000)))
    kept.append(torch.from_numpy(grown.numpy()))
    del kept


@pytest.mark.parametrize("program", [train, convolve, attend, odd_things])
def test_every_event_has_the_same_size_in_the_same_order(record, program):
    program()
    seen = []

    def both():
        with record() as recorded:
            program()
        seen.append(recorded)

    # Being outside, the profiler also sees what the recorder itself would allocate.
    theirs = only_pairs(profiled(both))
    ours = recorded_by_us(seen[0])
    assert len(theirs) > 10
    assert ours == theirs
