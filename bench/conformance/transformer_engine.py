"""Transformer Engine's compiled layers on a phantom H200, and the plugin's stand-ins beside them.

    python bench/conformance/transformer_engine.py --floodmark FOLDER [--record]

Makes a virtual environment with the versions of `bench/conformance/transformer_engine.txt` and
builds the extension there, which takes many minutes of CPU time. Then measures each layer of
`fixtures/transformer_engine/layers.py` twice and compares. `--record` writes what the compiled
package took to `fixtures/transformer_engine/figures.json`, which `make test` holds the stand-ins
to. Exit status 1 when a figure is off by more than 1 % and 1 MiB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import machine  # noqa: E402

ROOT = HERE.parents[1]
LAYERS = ROOT / "fixtures" / "transformer_engine" / "layers.py"
FIGURES = LAYERS.with_name("figures.json")
EXTENSION = "transformer_engine_torch"
BUILD = {
    "NVTE_BUILD_USE_NVIDIA_WHEELS": "1",
    "NVTE_PYTORCH_FORCE_BUILD": "TRUE",
    "NVTE_WITH_NCCL_EP": "0",
}
BYTES = ("parameters", "kept", "forward peak", "backward peak", "left", "step peak")
MIB = 1 << 20


def make_environment(python: str) -> Path:
    """A virtual environment with the compiled package; made anew when its versions change."""
    wanted = HERE / "transformer_engine.txt"
    folder = ROOT / ".venvs" / "te"
    done = folder / "requirements.txt"
    found = folder / "bin" / "python"
    if not (done.exists() and done.read_text() == wanted.read_text()):
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        pip = [str(found), "-m", "pip", "install", "--quiet", "--progress-bar", "off"]
        subprocess.run([*pip, "-r", str(wanted)], check=True)
        version = next(
            line.partition("==")[2]
            for line in wanted.read_text().splitlines()
            if line.startswith("transformer_engine==")
        )
        path = f"{found.parent}{os.pathsep}{os.environ['PATH']}"
        build = [*pip, "--no-build-isolation", "--no-deps", f"{EXTENSION}=={version}"]
        subprocess.run(build, env={**os.environ, **BUILD, "PATH": path}, check=True)
        done.write_text(wanted.read_text())
    return found


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


def text_of(real: dict[str, Any], fake: dict[str, Any], about: dict[str, Any]) -> str:
    head = ["layer", "recipe", "size", *BYTES[:-1], "off by more than 1 % and 1 MiB"]
    return "\n".join(
        [
            "# Transformer Engine: compiled on a phantom H200 / stood in for with fake tensors",
            "",
            f"{about['cpu']}, {about['cores']} cores, no GPU, Python {about['python']}, torch "
            f"{real['torch']}, Transformer Engine {real['transformer_engine']}, {about['date']}. "
            "MiB, of the second step of each layer; sizes: length of the sequence × batch × width.",
            "",
            machine.table(head, as_rows(real, fake)),
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--floodmark", type=Path, required=True, help="where floodmark lies")
    parser.add_argument("--python", default=sys.executable, help="makes the environment")
    parser.add_argument("--environment", type=Path, help="its Python, if there is one already")
    parser.add_argument("--record", action="store_true", help="write the fixture anew")
    parser.add_argument("--results", type=Path)
    args = parser.parse_args()
    python = args.environment or make_environment(args.python)
    real = measure(python, args.floodmark, "phantom")
    if args.record:
        FIGURES.write_text(as_fixture(real))
    fake = measure(python, args.floodmark, "fake")
    text = text_of(real, fake, machine.describe_host())
    print(text)
    off = [key for key, row in real["rows"].items() if differences(row, fake["rows"][key])]
    if args.results:
        args.results.mkdir(parents=True, exist_ok=True)
        (args.results / "transformer-engine.md").write_text(text + "\n")
    for key in off:
        print(f"{key}: {'; '.join(differences(real['rows'][key], fake['rows'][key]))}")
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
