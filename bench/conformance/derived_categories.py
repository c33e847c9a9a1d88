"""Compare the categories that are derived from torch snapshots with those of recordings.

    python bench/conformance/derived_categories.py FOLDER [--results FOLDER]

FOLDER has NAME.flood and NAME.pickle or NAME.pickle.gz, recorded at once by
`bench/fixtures/category_pairs.py`: one process, so the same addresses. What is allocated at the
peak is compared one by one. Exit status 1 when less than 95 % of the bytes of a model agree.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.feather

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import machine

LEAST_PERCENT = 95.0
HEAD = ["model", "peak, MiB", "same category, % of the bytes", "differs, bytes"]


def at_peak(trace: Path) -> dict[int, tuple[int, str]]:
    """By address, the bytes and the category of what the GPU had allocated at its peak."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["export", str(trace), "--to", "arrow", "--force", "-o", folder]
        subprocess.run([sys.executable, "-m", "floodmark", *words], check=True, capture_output=True)
        (table,) = Path(folder).rglob("allocations.arrow")
        rows = pyarrow.feather.read_table(table).to_pylist()
    return {
        row["address"]: (row["bytes"], row["category"])
        for row in rows
        if row["device"] == "cuda:0" and row["at_peak"]
    }


def compare(recording: Path) -> dict[str, Any]:
    """One row of the table."""
    (snapshot,) = recording.parent.glob(f"{recording.stem}.pickle*")
    recorded, derived = at_peak(recording), at_peak(snapshot)
    if recorded.keys() != derived.keys():
        sys.exit(f"{recording.stem}: the peaks have other allocations")
    differ: Counter[str] = Counter()
    for address, (size, category) in recorded.items():
        other = derived[address][1]
        if category != other:
            differ[f"{category} as {other}"] += size
    total = sum(size for size, _ in recorded.values())
    return {
        "name": recording.stem,
        "bytes": total,
        "percent": 100 * (1 - differ.total() / total),
        "differ": dict(differ.most_common()),
    }


def cells(row: dict[str, Any]) -> list[str]:
    differ = ", ".join(f"{size:,} {what}" for what, size in row["differ"].items())
    return [row["name"], f"{row['bytes'] / 2**20:,.1f}", f"{row['percent']:.3f}", differ]


def main() -> int:
    parser = machine.arguments(__doc__)
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    rows = [compare(recording) for recording in sorted(args.folder.glob("*.flood"))]
    parts = [
        "Each model was recorded on an H200 at once with floodmark and with torch's memory history "
        "(`bench/fixtures/category_pairs.py`). What was allocated at the peak is compared address "
        "by address: the category that is derived from the snapshot with that of the recording. "
        "The rules were made with the models of `fixtures/zoo`; of the eight of "
        "`category_models.py`, which came after them, seven were right at once, and `encoder` "
        "(Adagrad, whose `__init__` allocates its state) added a rule.",
        machine.table(HEAD, [cells(row) for row in rows]),
    ]
    verdicts = [
        (f"{row['name']}: {row['percent']:.3f} %", False)
        for row in rows
        if row["percent"] < LEAST_PERCENT
    ]
    result = {"models": rows}
    title = "Categories derived from torch snapshots"
    return machine.finish("derived-categories", title, parts, verdicts, result, args.results)


if __name__ == "__main__":
    sys.exit(main())
