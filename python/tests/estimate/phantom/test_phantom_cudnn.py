"""What cuDNN takes on a phantom GPU: its own plans, and what a real H200 was seen to take."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch
from support.phantoms import needs_cuda_build

PROGRAM = """
import json, os
from floodmark import _core
from floodmark.estimate.device import library
phantom = library.load(_core.PhantomMachine("h200"))
import torch
import torch.nn.functional as F
def taken(run):
    # The sizes that were requested of torch's allocator.
    torch.cuda.memory._record_memory_history(enabled="all", context=None, max_entries=100000)
    run()
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    return [event["size"] for event in events if event["action"] == "alloc"]
def new(*sizes, dtype=torch.float32):
    return torch.zeros(*sizes, device="cuda", dtype=dtype, requires_grad=True)
facts = {{}}
{body}
calls = phantom.library.unsupported()
facts["unsupported"] = [call.name for call in calls if call.library == "cudnn"]
print(json.dumps(facts), flush=True)
# Threads of autograd may still free tensors, which a Python that ends does not bear.
os._exit(0)
"""


def on_a_phantom(body):
    """What the lines put into `facts`, in a process that has a phantom GPU."""
    program = PROGRAM.format(body=body)
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, ran.stderr
    facts = json.loads(ran.stdout.splitlines()[-1])
    assert facts.pop("unsupported") == []
    return facts


pytestmark = needs_cuda_build
# The recordings were made with this torch; other versions of cuDNN plan otherwise.
as_measured = pytest.mark.skipif(
    not torch.__version__.startswith("2.11."), reason="measured with 2.11"
)


@as_measured
def test_a_convolution_takes_what_it_takes_on_the_device():
    facts = on_a_phantom("""
x, w = new(32, 64, 56, 56), new(64, 64, 3, 3)
facts["forward"] = taken(lambda: F.conv2d(x, w, padding=1))
y = F.conv2d(x, w, padding=1)
facts["backward"] = taken(lambda: torch.autograd.grad(y, x, y.detach()))
""")
    activation = 32 * 64 * 56 * 56 * 4
    assert facts == {"forward": [activation, 25_837_584], "backward": [activation, 51_527_696]}


@as_measured
def test_attention_takes_what_it_takes_on_the_device():
    facts = on_a_phantom("""
q, k, v = (new(1, heads, 2048, 64, dtype=torch.bfloat16) for heads in (32, 8, 8))
y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
facts["node"] = y.grad_fn.name()
facts["backward"] = taken(lambda: torch.autograd.grad(y, (q, k, v), y.detach()))
""")
    assert facts["node"] == "ScaledDotProductCudnnAttentionBackward0"
    queries, keys = 32 * 2048 * 64 * 2, 8 * 2048 * 64 * 2
    assert facts["backward"] == [queries, keys, keys, 33_816_832]


def test_an_lstm_takes_what_it_takes_on_the_device():
    facts = on_a_phantom("""
def build():
    global net
    net = torch.nn.LSTM(512, 512, 2, batch_first=True, dropout=0.1, device="cuda")
facts["built"] = taken(build)
x = new(32, 256, 512)
facts["forward"] = taken(lambda: globals().update(y=net(x)[0]))
facts["backward"] = taken(lambda: y.backward(y.detach()))
""")
    assert 16_809_984 in facts["built"], "all weights in one block"
    for size in (6_488_064, 152_306_176, 185_073_920):
        assert facts["forward"].count(size) == 1, f"{size} bytes in {facts['forward']}"
    assert facts["backward"].count(152_306_176) == 2, "for data and for weights"


def test_every_kind_of_layer_is_planned():
    facts = on_a_phantom("""
count = 0
def train(net, *sizes, dtype=torch.float32, last=False):
    global count
    net = net.to("cuda", dtype)
    x = new(*sizes, dtype=dtype)
    if last:
        order = torch.channels_last
        net, x = net.to(memory_format=order), x.detach().to(memory_format=order)
    y = net(x)
    (y[0] if isinstance(y, tuple) else y).sum().backward()
    count += 1
nn = torch.nn
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    for last in (False, True):
        for net in (
            nn.Conv2d(32, 64, 3, stride=2, padding=1),
            nn.Conv2d(32, 32, 3, padding=2, dilation=2, groups=32),
            nn.Conv2d(32, 64, 1, groups=4),
            nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1),
        ):
            train(net, 4, 32, 28, 28, dtype=dtype, last=last)
    train(nn.Conv1d(16, 32, 5), 4, 16, 100, dtype=dtype)
    train(nn.Conv3d(8, 16, 3, padding=1), 2, 8, 8, 16, 16, dtype=dtype)
    for net in (nn.LSTM(16, 32, bidirectional=True), nn.GRU(16, 32, 2), nn.RNN(16, 32, bias=False)):
        train(net, 5, 3, 16, dtype=dtype)
train(nn.LSTM(16, 32, proj_size=8), 5, 3, 16)
train(nn.BatchNorm2d(8), 4, 8, 14, 14)
facts["count"] = count
""")
    assert facts["count"] == 41
