"""Where the files of this checkout are."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
FIXTURES = ROOT / "fixtures"
#: What tests run as `python FILE`.
PROGRAMS = ROOT / "python" / "tests" / "programs"
