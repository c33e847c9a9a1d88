"""Compares Transformer Engine's compiled layers on a simulated H200 with the plugin's kernels.

    python bench/conformance/transformer_engine.py --floodmark FOLDER [--record]

Makes a virtual environment with the versions of `bench/conformance/transformer_engine.txt` and
builds the extension there, which takes many minutes of CPU time. Then measures each layer of
`fixtures/transformer_engine/layers.py` twice and compares. `--record` writes what the compiled
package took to `fixtures/transformer_engine/figures.json`, which `make test` holds the stand-ins
to. Exit status 1 when a figure is off by more than 1 % and 1 MiB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import matrix
from matrix import ROOT, machine

HERE = Path(__file__).resolve().parent
LAYERS = ROOT / "fixtures" / "transformer_engine" / "layers.py"
REQUIREMENTS = HERE / "transformer_engine.txt"
FIGURES = LAYERS.with_name("figures.json")
EXTENSION = "transformer_engine_torch"
BUILD = {
    "NVTE_BUILD_USE_NVIDIA_WHEELS": "1",
    "NVTE_PYTORCH_FORCE_BUILD": "TRUE",
    "NVTE_WITH_NCCL_EP": "0",
}
BYTES = ("parameters", "kept", "forward peak", "backward peak", "left", "step peak")
MIB = 1 << 20


def build_extension(python: Path, pip: list[str]) -> None:
    """Compile the extension for torch, whose wheels exist for few versions."""
    version = next(
        line.partition("==")[2]
        for line in REQUIREMENTS.read_text().splitlines()
        if line.startswith("transformer_engine==")
    )
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    build = [*pip, "--no-build-isolation", "--no-deps", f"{EXTENSION}=={version}"]
    subprocess.run(build, env={**os.environ, **BUILD, "PATH": path}, check=True)


def measure(python: Path, floodmark: Path, engine: str) -> dict[str, Any]:
    """All rows with one engine."""
    env = {**os.environ, "PYTHONPATH": str(floodmark.resolve())}
    command = [str(python), str(LAYERS), engine]
    done = subprocess.run(command, env=env, text=True, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def as_fixture(found: dict[str, Any]) -> str:
    """JSON with a line for each row."""
    about = {key: value for key, value in found.items() if key != "rows"}
    head = json.dumps(about)[:-1]
    rows = ",\n".join(f"{json.dumps(key)}: {json.dumps(row)}" for key, row in found["rows"].items())
    return f'{head}, "rows": {{\n{rows}\n}}}}\n'


def is_near(real: int, fake: int) -> bool:
    return abs(real - fake) <= max(real / 100, MIB)


def differences(real: dict[str, Any], fake: dict[str, Any]) -> list[str]:
    """What differs between two rows, in words."""
    found = [
        f"{name}: {fake[name]:,} instead of {real[name]:,}"
        for name in BYTES
        if name in real and not is_near(real[name], fake[name])
    ]
    found += [name for name in ("outputs", "gradients") if real[name] != fake[name]]
    return found


def as_rows(real: dict[str, Any], fake: dict[str, Any]) -> list[list[str]]:
    rows = []
    for key, one in real["rows"].items():
        other = fake["rows"][key]
        cells = key.split(" | ")
        for name in BYTES[:-1]:
            cells.append(f"{one[name] / MIB:.1f} / {other[name] / MIB:.1f}")
        rows.append([*cells, "; ".join(differences(one, other)) or "nothing"])
    return rows


def parts_of(real: dict[str, Any], fake: dict[str, Any]) -> list[str]:
    """The parts of the page of results."""
    about = machine.describe_host()
    head = ["layer", "recipe", "size", *BYTES[:-1], "off by more than 1 % and 1 MiB"]
    return [
        f"{about['cpu']}, {about['cores']} cores, no GPU, Python {about['python']}, torch "
        f"{real['torch']}, Transformer Engine {real['transformer_engine']}, {about['date']}. "
        "MiB, of the second step of each layer; sizes: length of the sequence × batch × width.",
        machine.table(head, as_rows(real, fake)),
    ]


def main() -> int:
    parser = matrix.arguments(__doc__)
    parser.add_argument("--record", action="store_true", help="write the fixture anew")
    args = parser.parse_args()
    python = args.environment or matrix.environment(
        "te", REQUIREMENTS, args.python, build_extension
    )
    real = measure(python, args.floodmark, "phantom")
    if args.record:
        FIGURES.write_text(as_fixture(real))
    fake = measure(python, args.floodmark, "fake")
    verdicts = [
        (f"{key}: {'; '.join(differences(row, fake['rows'][key]))}", False)
        for key, row in real["rows"].items()
        if differences(row, fake["rows"][key])
    ]
    title = "Transformer Engine: compiled on a simulated H200 / replaced with fake tensors"
    parts = parts_of(real, fake)
    return machine.finish("transformer-engine", title, parts, verdicts, None, args.results)


if __name__ == "__main__":
    sys.exit(main())
