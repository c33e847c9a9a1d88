"""Files for speedscope, against its published schema and opened by the program itself.

Both are in its npm package, which `make` puts into tools/speedscope.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from support.checkout import ROOT
from support.formats import hostile_trace
from support.programs import PATIENCE

from floodmark.reports.trace import Trace

RELEASE = ROOT / "tools" / "speedscope" / "node_modules" / "speedscope" / "dist" / "release"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")

pytestmark = pytest.mark.skipif(
    not RELEASE.is_dir(), reason="speedscope is not installed: `npm ci --prefix tools/speedscope`"
)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[Path]:
    """Of a recording of a GPU, and of one with hostile names."""
    folder = tmp_path_factory.mktemp("speedscope")
    recorded = ROOT / "fixtures" / "recordings" / "zoo" / "lstm.pickle.gz"
    traces = (Trace.open(recorded), hostile_trace(folder))
    paths = [folder / f"{number}.speedscope.json" for number in range(len(traces))]
    for trace, path in zip(traces, paths, strict=True):
        trace.export(path)
    return paths


def test_files_follow_the_schema(files):
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((RELEASE / "file-format-schema.json").read_text())
    check = jsonschema.Draft7Validator(schema)
    for path in files:
        file = json.loads(path.read_text())
        assert [error.message for error in check.iter_errors(file)] == []
        names = [profile["name"].split(": ")[1] for profile in file["profiles"]]
        assert set(names) == {"live at the peak", "allocated, over time"}
    broken = json.loads(files[0].read_text())
    broken["profiles"][0]["unit"] = "feet"
    assert list(check.iter_errors(broken))


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
def test_speedscope_opens_the_file(files, tmp_path):
    """Its own page, from disk, as its command line opens it: the title has the profile's name."""
    release = tmp_path / "release"
    shutil.copytree(RELEASE, release)
    content = base64.b64encode(files[0].read_bytes()).decode()
    load = tmp_path / "load.js"
    load.write_text(f"speedscope.loadFileFromBase64('x.json', '{content}')")
    page = f"file://{release}/index.html#localProfilePath={load}"
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu-sandbox",
        "--allow-file-access-from-files", f"--user-data-dir={tmp_path}/profile",
        "--virtual-time-budget=20000", "--dump-dom", page,
    ]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE).stdout
    assert "cuda:0: live at the peak" in shown
    assert "cuda:0: allocated, over time" in shown
