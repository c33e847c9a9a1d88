"""What operators of a step are counted as, for the estimate of its time."""

from __future__ import annotations

import json

from support.phantoms import needs_cuda_build

pytestmark = needs_cuda_build

#: One step is a few operators of known sizes.
TRAINING = """
    import torch
    from torch import nn

    bf16 = torch.bfloat16
    even = torch.ones(64, 64, device="cuda", dtype=bf16)
    uneven = torch.ones(64, 65, device="cuda", dtype=bf16)
    image = torch.ones(1, 8, 16, 16, device="cuda")
    depthwise = nn.Conv2d(8, 8, 3, groups=8).cuda().requires_grad_(False)
    norm = nn.LayerNorm(64).cuda().requires_grad_(False)
    lstm = nn.LSTM(64, 32).cuda().requires_grad_(False)
    weight = nn.Parameter(torch.ones(1 << 20, device="cuda"))
    optimizer = torch.optim.SGD([weight], lr=0.1, foreach=True)
    for _ in range(30):
        even @ even
        even @ uneven
        depthwise(image)
        norm(torch.ones(4, 64, device="cuda"))
        lstm(torch.ones(5, 3, 64, device="cuda"))
        image.transpose(1, 2).contiguous()
        weight.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def test_operators_are_counted_by_what_limits_them(programs):
    programs.write(TRAINING, "train.py")
    words = ("--measure-step", "--steps", "2", "--force", "-o", "a.flood", "train.py")
    done = programs.floodmark("estimate", "--json", "-q", *words)
    assert done.stdout, done.stderr
    counted = json.loads(done.stdout)["cost"]["operators"]

    def of(kind, dtype):
        rows = [one for one in counted if (one["kind"], one["dtype"]) == (kind, dtype)]
        return {key: sum(one[key] for one in rows) for key in ("count", "flops", "bytes")}

    assert of("matmul", "bfloat16")["flops"] == 2 * 64**3
    assert of("uneven_matmul", "bfloat16")["flops"] == 2 * 64 * 64 * 65
    grouped = [one for one in counted if one["kind"] == "grouped_convolution"]
    assert [one["count"] for one in grouped] == [1]
    assert of("normalization", "float32")["count"] == 1
    # The LSTM: four gates, each with a weight for the input and one for the state.
    assert of("matmul", "float32")["flops"] == 2 * 5 * 3 * 4 * 32 * (64 + 32)
    # The update reads a weight and its gradient, and writes the weight.
    assert of("elementwise", "float32")["bytes"] >= 3 * 4 << 20
    # The copy to another layout, and the sum.
    assert of("memory", "float32")["count"] >= 2
