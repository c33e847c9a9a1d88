"""What tests on a GPU that is not there need."""

from __future__ import annotations

import sys

import pytest
import torch

#: The stock build of torch for Linux has CUDA's host code; without it there is nothing to run.
needs_cuda_build = pytest.mark.skipif(
    torch.version.cuda is None or sys.platform != "linux", reason="needs the CUDA build of torch"
)
