"""Fused linear cross entropy: ours, Liger's and Apple's, simulated, on a GPU, and as published.

    python bench/conformance/fused_loss.py FILE --simulated    # anywhere: no GPU is needed
    python bench/conformance/fused_loss.py FILE                # on the GPU: less than two minutes

Two parts, each run a process of its own, added to FILE. *Model*: a Qwen3 of 12 layers
(`bench/programs/qwen3_accumulated.py`, one batch of 2 × 1,024 tokens for each step) without changes
and with `chunked-loss=head`, `=liger` and `=cce`. *Layer*: the last `Linear` and the loss alone, as
in the benchmarks of both libraries (`bench/programs/fused_layer.py`), beside what those published.
A library that cannot be imported is left out. Exit status 1 where allocated bytes of the model on
the GPU are more than half a percent off, or the simulated layer more than one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from changes_check import TOLERANCE, measure_program, words_of
from plan_at_share import ROOT, estimate, floodmark
from plan_table import machine, mib

MODEL = "bench/programs/qwen3_accumulated.py"
LAYER = str(ROOT / "bench/programs/fused_layer.py")
ONE_BATCH = ("--accumulate", "1")
TIMED_STEPS = 12
NAME = "fused-loss"
#: The import name and the package of a library.
LIBRARIES = {
    "liger": ("liger_kernel", "liger-kernel"),
    "cce": ("cut_cross_entropy", "cut-cross-entropy"),
}
CHANGES = {
    "": "torch",
    "chunked-loss=head": "torch",
    "chunked-loss=liger": "liger",
    "chunked-loss=cce": "cce",
}
#: The share by which a published peak may differ: releases of a library differ too.
PUBLISHED_TOLERANCE = 0.01
WHERE = ("simulated", "measured")


class Published(NamedTuple):
    """A figure of a library's own benchmark: a forward and a backward pass on an A100."""

    benchmark: str
    library: str
    tokens: int
    hidden: int
    vocabulary: int
    mib: float
    milliseconds: float

    def name(self) -> str:
        """What it is called in FILE."""
        return f"{self.benchmark} {self.library} {self.tokens}"


#: Where the figures are from: Liger 0.4.2, 2024-11-22; Cut Cross Entropy with torch 2.4.1.
SOURCES = {
    "liger": "https://github.com/linkedin/Liger-Kernel/blob/"
    "ead96b618e5c67bddc6a6e9bcb99bfe6b5ab661c/benchmark/data/all_benchmark_data.csv",
    "cce": "https://github.com/apple/ml-cross-entropy/blob/"
    "d42911f9b1a1f98289bb601c35c8151562603d74/README.md",
}
PUBLISHED = (
    Published("liger", "torch", 4096, 4096, 128_256, 6092.2822265625, 55.967),
    Published("liger", "liger", 4096, 4096, 128_256, 4245.5478515625, 121.431),
    Published("liger", "torch", 16_384, 4096, 128_256, 15302.3759765625, 220.784),
    Published("liger", "liger", 16_384, 4096, 128_256, 4910.4384765625, 277.117),
    Published("cce", "torch", 8192, 2304, 256_000, 28000.0, 208.8),
    Published("cce", "cce", 8192, 2304, 256_000, 1164.0, 134.8),
)


def release(library: str) -> str | None:
    """The release of a library; None where it cannot be imported."""
    module, package = LIBRARIES.get(library, (library, library))
    return version(package).split("+")[0] if find_spec(module) else None


def simulated_model(change: str, gpu: str) -> dict[str, Any]:
    """The peaks of the model on the simulated GPU."""
    found = estimate(gpu, *words_of(change), MODEL, *ONE_BATCH)
    reasons = [one["reason"] for one in found["changes"] if one["reason"]]
    if reasons:
        return {"failed": reasons[0]}
    return {name: found[name] for name in ("peak_allocated", "peak_reserved", "unsupported")}


def layer(one: Published, gpu: str | None) -> dict[str, Any]:
    """The layer of a benchmark, on a simulated GPU or, without one, on the GPU."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "layer.json"
        words = [LAYER, one.benchmark, one.library]
        words += [str(size) for size in (one.tokens, one.hidden, one.vocabulary)] + [str(file)]
        if gpu is None:
            done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
        else:
            output = ("--quiet", "-o", f"{folder}/a.flood")
            done = floodmark("estimate", *output, "--gpu", gpu, *words)
        if not file.exists():
            return {"failed": done.stderr[-500:]}
        found: dict[str, Any] = json.loads(file.read_text())
    return found if gpu is None else {"mib": found["mib"]}


def store(rows: dict[str, Any], name: str, where: str, library: str, found: dict[str, Any]) -> None:
    """Keep what was found, with the release of the library, and say it."""
    rows.setdefault(name, {}).setdefault(where, {})[f"{library} {release(library)}"] = found
    print(f"{name or 'unchanged'}, {where}: {found}", flush=True)


def model_rows(rows: dict[str, Any]) -> list[list[str]]:
    """The model, with each change."""
    cells = []
    for change, found in rows.items():
        libraries = dict.fromkeys(library for where in WHERE for library in found.get(where, {}))
        for library in libraries:
            simulated, measured = (found.get(where, {}).get(library, {}) for where in WHERE)

            def pair(peak: str, both: tuple[dict[str, Any], ...] = (simulated, measured)) -> str:
                return " / ".join(mib(one.get(peak)) if peak in one else "–" for one in both)

            took = f"{measured['seconds'] * 1e3:.1f}" if "seconds" in measured else "–"
            loss = f"{measured['loss']:.4f}" if "loss" in measured else "–"
            name = f"`{change}`" if change else "none"
            peaks = [pair("peak_allocated"), pair("peak_reserved")]
            failed = simulated.get("failed") or measured.get("failed")
            cells.append(
                [name, library, *([failed, "", "", ""] if failed else [*peaks, took, loss])]
            )
    return cells


def layer_rows(rows: dict[str, Any]) -> list[list[str]]:
    """Each published figure, with those of the same layer here."""
    cells = []
    for one in PUBLISHED:
        found = rows.get(one.name(), {})
        libraries = dict.fromkeys(library for where in WHERE for library in found.get(where, {}))
        for library in libraries:
            simulated, measured = (found.get(where, {}).get(library, {}) for where in WHERE)
            times = [f"{one.milliseconds:.1f}"]
            times.append(f"{measured['milliseconds']:.1f}" if "mib" in measured else "–")
            peaks = [one.mib, simulated.get("mib"), measured.get("mib")]
            shape = f"{one.tokens:,} × {one.hidden:,} × {one.vocabulary:,}"
            shown = ["–" if peak is None else f"{peak:,.4f}" for peak in peaks]
            cells.append([f"{one.benchmark}, {shape}", library, *shown, *times])
    return cells


def verdicts(found: dict[str, Any]) -> list[machine.Verdict]:
    """What must be equal, and is or is not."""
    said = []
    for change, row in found["model"].items():
        for library, measured in row.get("measured", {}).items():
            simulated = row.get("simulated", {}).get(library, {}).get("peak_allocated")
            if simulated and "peak_allocated" in measured:
                off = measured["peak_allocated"] / simulated - 1
                what = f"model, {change or 'unchanged'}, {library}: allocated {off:+.3%}"
                said.append((what, abs(off) <= TOLERANCE))
    for one in PUBLISHED:
        row = found["layers"].get(one.name(), {}).get("simulated", {})
        for library, simulated in row.items():
            # Another release of Liger computes with other chunks.
            if "mib" in simulated and (one.library != "liger" or library.startswith("liger 0.4.")):
                off = simulated["mib"] / one.mib - 1
                what = f"layer, {one.name()}, {library}: {off:+.4%} of the published peak"
                said.append((what, abs(off) <= PUBLISHED_TOLERANCE))
    return said


def report(found: dict[str, Any], results: Path | None) -> int:
    """The page; 1 where something is not as it must be."""
    machines = [
        f"{where}: {machine.sentence(found['machines'][where])}."
        for where in WHERE
        if where in found["machines"]
    ]
    peaks = [f"{what}, simulated / measured, MiB" for what in ("allocated", "reserved")]
    model_head = ["change", "computed by", *peaks, "step, ms", "first loss"]
    layer_head = ["benchmark, tokens × hidden × vocabulary", "computed by"]
    layer_head += ["published, MiB", "simulated, MiB", "measured, MiB", "published, ms", "ms"]
    parts = [
        "Each run is a process of its own. Time is not simulated: it has no rule for kernels of "
        "Triton.",
        "\n".join(f"- {line}" for line in machines),
        "## A model",
        "Qwen3 of 12 layers, hidden size 1,024, vocabulary 151,936, bf16, 2 × 1,024 tokens, fused "
        "AdamW; simulated and measured on an H200.",
        machine.table(model_head, model_rows(found["model"])),
        "## The layer alone, beside what the libraries publish",
        "A forward and a backward pass in bf16, measured as in their scripts. Published and "
        "simulated figures are those of an A100 with 80 GB, measured ones of the GPU above. "
        f"Sources: [Liger's own measurements]({SOURCES['liger']}), release 0.4.2, and "
        f"[the page of Cut Cross Entropy]({SOURCES['cce']}), a development version. Other releases "
        "of Liger compute with other chunks. Ours are random numbers: kernels that skip small "
        "gradients take another time with them.",
        machine.table(layer_head, layer_rows(found["layers"])),
    ]
    title = "Fused linear cross entropy"
    return machine.finish(NAME, title, parts, verdicts(found), found, results)


def main() -> int:
    parser = machine.arguments(__doc__)
    parser.add_argument("file", type=Path, help="JSON file that the figures are added to")
    parser.add_argument("--simulated", action="store_true", help="on the simulated GPU")
    parser.add_argument("--only", choices=("model", "layers"), help="one of the two parts")
    args = parser.parse_args()
    empty: dict[str, Any] = {"machines": {}, "model": {}, "layers": {}}
    found = json.loads(args.file.read_text()) if args.file.exists() else empty
    where = WHERE[0] if args.simulated else WHERE[1]
    found["machines"][where] = machine.describe()
    for change, library in CHANGES.items():
        if args.only != "layers" and release(library):
            if args.simulated:
                row = simulated_model(change, "h200")
            else:
                row = measure_program(change, MODEL, *ONE_BATCH, steps=TIMED_STEPS)
            store(found["model"], change, where, library, row)
            args.file.write_text(json.dumps(found, indent=1) + "\n")
    for one in PUBLISHED:
        if args.only != "model" and release(one.library):
            row = layer(one, "a100-80gb" if args.simulated else None)
            store(found["layers"], one.name(), where, one.library, row)
            args.file.write_text(json.dumps(found, indent=1) + "\n")
    return report(found, args.results)


if __name__ == "__main__":
    sys.exit(main())
