"""What tests on a simulated GPU need."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

#: The stock build of torch for Linux has CUDA's host code; without it there is nothing to run.
needs_cuda_build = pytest.mark.skipif(
    torch.version.cuda is None or sys.platform != "linux", reason="needs the CUDA build of torch"
)

#: A process that has asked for a real GPU has begun CUDA.
needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")


def own_caches(folder: Path) -> dict[str, str]:
    """Variables for compilers: what other processes compile, or have left, is not used."""
    names = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
    return {name: str(folder / name.lower()) for name in names}


def estimate(programs: Any, source: str, *words: str) -> Any:
    """The estimate of a program's source, which fits, as JSON."""
    programs.write(source, "train.py")
    words = ("estimate", "--json", "-q", "-o", "a.flood", "--force", *words, "train.py")
    done = programs.floodmark(*words, env=own_caches(programs.folder))
    found = json.loads(done.stdout)
    assert found["fits"], done.stderr
    return found
