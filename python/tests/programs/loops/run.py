"""Runs the loops that are named, one after the other, each in a folder of its own.

One process for all: CUDA begins once in a process, and to import torch and what it needs for these
libraries takes longer than the loops.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import sys
import traceback
import warnings
from pathlib import Path

import floodmark

with floodmark.phantom("h200"):
    import torch  # noqa: F401

warnings.simplefilter("ignore")
begin = Path.cwd()
run_out = None
for name in sys.argv[1:]:
    Path(name).mkdir()
    os.chdir(name)
    with open("said.txt", "w") as said, contextlib.redirect_stderr(said):
        facts = {}
        try:
            facts = runpy.run_path(str(Path(__file__).with_name(f"with_{name}.py")))
        except Exception:
            traceback.print_exc(file=said)
    Path("found.json").write_text(json.dumps(facts.get("found")))
    run_out = facts.get("run_out", run_out)
    os.chdir(begin)

if run_out is not None:
    run_out()
