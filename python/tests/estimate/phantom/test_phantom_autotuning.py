"""Autotuners on a phantom GPU: one configuration is compiled, and the memory is a GPU's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.phantoms import needs_cuda_build, own_caches

pytestmark = needs_cuda_build

PROGRAM = """
import json, floodmark
with floodmark.phantom("h200"):
    import torch
import triton, triton.language as tl
from torch._inductor.runtime.triton_heuristics import CachingAutotuner

configs = [triton.Config({"B": b}, num_warps=w) for b in (64, 128, 256) for w in (2, 4)]

@triton.autotune(configs=configs, key=["n"])
@triton.jit
def add(x, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)

runs = []
run = add.fn.run
def counted(*args, **kwargs):
    runs.append((kwargs["B"], kwargs["num_warps"]))
    return run(*args, **kwargs)
add.fn.run = counted
x = torch.ones(1000, device="cuda")
add[lambda meta: (triton.cdiv(1000, meta["B"]),)](x, torch.empty_like(x), 1000)
triton_reserved = torch.cuda.max_memory_reserved()

compiled = []
compile_one = CachingAutotuner._precompile_config
def noted(self, config):
    compiled.append(self.fn.__name__)
    return compile_one(self, config)
CachingAutotuner._precompile_config = noted
torch.compile(lambda a: (a.softmax(-1) + a.t()).sum(0))(torch.ones(512, 512, device="cuda"))
print(json.dumps([sorted(set(runs)), triton_reserved, sorted(compiled)]))
"""


def test_autotuners_take_the_first_configuration(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(path)],
        env={**os.environ, **own_caches(tmp_path)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    runs, reserved, compiled = json.loads(done.stdout.splitlines()[-1])
    assert runs == [[64, 2]]
    # A GPU measures with a buffer that clears its cache.
    assert reserved >= 256 << 20
    assert compiled != []
    assert len(set(compiled)) == len(compiled), "one configuration of each kernel"
