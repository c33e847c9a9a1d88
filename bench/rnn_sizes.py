"""Do recurrent networks take what they take on an H200? Records cuDNN and torch, and compares.

On a machine with an H200: `python bench/rnn_sizes.py --record FOLDER`. On any other, with the same
torch: `python bench/rnn_sizes.py --compare FOLDER`. Compared are the sizes that cuDNN gives for
each network of a grid (`rnn_networks.py`), and torch programs (`rnn_programs.py`): every size of an
allocation on the phantom, the peaks with both engines.
"""

from __future__ import annotations

import argparse
import collections
import csv
import ctypes
import gzip
import json
import platform
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import machine  # noqa: E402
import rnn_networks  # noqa: E402
import rnn_programs  # noqa: E402
from rnn_networks import Cudnn, Network, Sizes  # noqa: E402


def real_libraries() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """The cuDNN and the CUDA runtime that torch would use."""
    import torch

    torch.cuda.init()
    folder = Path(sysconfig.get_path("purelib"), "nvidia")
    cudnn = next(folder.glob("cudnn/lib/libcudnn.so.*"))
    runtime = next(folder.glob("**/libcudart.so.*"))
    return ctypes.CDLL(str(cudnn)), ctypes.CDLL(str(runtime))


def record(folder: Path) -> None:
    """Ask the real cuDNN, and run the programs on the real GPU."""
    import torch

    cudnn, runtime = real_libraries()
    asked = Cudnn(cudnn, runtime)
    folder.mkdir(parents=True, exist_ok=True)
    networks = rnn_networks.networks()
    with gzip.open(folder / "networks.csv.gz", "wt", newline="") as file:
        out = csv.writer(file)
        out.writerow([*Network._fields, *Sizes._fields])
        for network in networks:
            out.writerow([*network, *asked.sizes(network)])
    programs = rnn_programs.programs()
    facts = {
        "torch": torch.__version__,
        "cudnn": torch.backends.cudnn.version(),
        "device": torch.cuda.get_device_name(),
        "python": platform.python_version(),
        "programs": programs,
        "results": rnn_programs.run_all(programs),
    }
    (folder / "programs.json").write_text(json.dumps(facts))
    print(f"{len(networks)} networks, {len(programs)} programs")


def recorded_networks(folder: Path) -> list[tuple[Network, Sizes]]:
    """The networks of a recording. Sizes beyond 2^63 are overflows inside cuDNN, and left out."""
    found = []
    with gzip.open(folder / "networks.csv.gz", "rt", newline="") as file:
        reader = csv.reader(file)
        next(reader)
        at = len(Network._fields)
        for line in reader:
            asked = Network(*map(int, line[: at - 1]), line[at - 1])
            sizes = Sizes(*map(int, line[at:]))
            if max(sizes) < 1 << 63 and sizes.weights < 1 << 32:
                found.append((asked, sizes))
    return found


def on_phantom(folder: Path) -> dict[str, Any]:
    """In this process: networks and programs on a simulated H200."""
    import floodmark
    from floodmark.estimate.phantom import library

    programs = json.loads((folder / "programs.json").read_text())["programs"]
    with floodmark.phantom("h200"):
        phantom = library.loaded()
        assert phantom is not None
        asked = Cudnn(phantom.library, phantom.library)
        groups: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0, 0])
        for network, real in recorded_networks(folder):
            figures = groups[name_of(network)]
            figures[0] += 1
            figures[1] += asked.sizes(network) == real
            figures[2] += real.weights == -1
        return {"networks": groups, "programs": rnn_programs.run_all(programs)}


def name_of(network: Network) -> str:
    """The group of a network in the table."""
    cell = rnn_networks.CELLS[network.cell] + (", proj_size" if network.proj else "")
    layout = "packed" if network.packed else "padded"
    kind = rnn_networks.ALGORITHMS[network.algorithm]
    return f"{cell} | {rnn_networks.DTYPES[network.dtype]} | {layout} | {kind}"


def on_fake_tensors(folder: Path) -> list[dict[str, Any]]:
    """In this process: the programs with fake tensors."""
    import floodmark

    programs = json.loads((folder / "programs.json").read_text())["programs"]
    results: list[dict[str, Any]] = []
    for program in programs:
        try:
            with floodmark.estimate(engine="fake", gpu="h200") as est:
                rnn_programs.train(program)
                _, peak, _, reserved = est.level("cuda")
            results.append({"peak": peak, "reserved": reserved})
        except Exception as error:
            results.append({"error": f"{type(error).__name__}: {error}"[:300]})
    return results


def in_a_process(folder: Path, engine: str) -> Any:
    """One engine's figures."""
    command = [sys.executable, __file__, "--one", engine, "--compare", str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=1200, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def off(real: dict[str, Any], found: dict[str, Any], figure: str) -> str:
    """A figure of an estimate beside the real one."""
    if "error" in found:
        return "failed"
    by = found[figure] - real[figure]
    return "0" if by == 0 else f"{by / real[figure]:+.2%}"


def text_of(program: dict[str, Any]) -> str:
    """A program in few words."""
    words = [program["cell"], f"{program['input']}→{program['hidden']}", program["dtype"]]
    words.append(f"{program['layers']} layers")
    words += [name for name in ("both_ways", "batch_first") if program[name]]
    words += [f"{name} {program[name]}" for name in ("proj", "dropout") if program[name]]
    words.append(f"packed {program['packed']}" if program["packed"] else "padded")
    return ", ".join([*words, f"{program['batch']}×{program['steps']}", program["mode"]])


def compare(folder: Path) -> None:
    """Ask both engines, and write it all down."""
    truth = json.loads((folder / "programs.json").read_text())
    phantom, fake = in_a_process(folder, "phantom"), in_a_process(folder, "fake")
    rows = []
    for program, real, there, faked in zip(
        truth["programs"], truth["results"], phantom["programs"], fake, strict=True
    ):
        rows.append(
            {
                "program": text_of(program),
                "peak": real.get("peak"),
                "reserved": real.get("reserved"),
                "phantom_peak": off(real, there, "peak"),
                "phantom_reserved": off(real, there, "reserved"),
                "phantom_sizes": there.get("sizes") == real.get("sizes"),
                "fake_peak": off(real, faked, "peak"),
                "fake_reserved": off(real, faked, "reserved"),
                "errors": [one["error"] for one in (real, there, faked) if "error" in one],
            }
        )
    about = {key: truth[key] for key in ("torch", "cudnn", "device", "python")}
    groups = phantom["networks"]
    results = {"real": about, "estimates": machine.describe(), "networks": groups, "rows": rows}
    (machine.RESULTS / "rnn-h200.json").write_text(json.dumps(results, indent=1) + "\n")
    (machine.RESULTS / "rnn-h200.md").write_text(table(about, groups, rows))
    print(summary(groups, rows))


def summary(groups: dict[str, list[int]], rows: list[dict[str, Any]]) -> str:
    """The figures in one paragraph."""
    count, same, refused = (sum(figures) for figures in zip(*groups.values(), strict=True))

    def zeros(*keys: str) -> int:
        return sum(all(row[key] in ("0", True) for key in keys) for row in rows)

    return (
        f"Networks: {same:,} of {count:,} exact, {refused:,} of them refused by both. "
        f"Torch programs, {len(rows)}: on the phantom {zeros('phantom_peak')} exact in peak, "
        f"{zeros('phantom_reserved')} in reserved bytes, {zeros('phantom_sizes')} in every size; "
        f"with fake tensors {zeros('fake_peak')} exact in peak, {zeros('fake_reserved')} in "
        "reserved bytes."
    )


def table(about: dict[str, Any], groups: dict[str, list[int]], rows: list[dict[str, Any]]) -> str:
    """The results for people."""
    lines = [
        "# Recurrent networks: estimates against an H200",
        "",
        f"Real: {about['device']}, torch {about['torch']}, cuDNN {about['cudnn']}. "
        "Estimates: the same torch, no GPU. `bench/rnn_sizes.py`.",
        "",
        summary(groups, rows),
        "",
        "## What cuDNN asks for",
        "",
        "Weights, workspace for training and for inference, and reserve space of each network, as "
        "cuDNN gives them. `exact`: all four are equal.",
        "",
        "| cell | numbers | sequences | algorithm | networks | exact |",
        "| --- | --- | --- | --- | --- | --- |",
        *(f"| {name} | {each[0]:,} | {each[1]:,} |" for name, each in sorted(groups.items())),
        "",
        "## Torch programs",
        "",
        "Two training steps each. After a peak of the real GPU: how far an estimate is from it.",
        "",
        "| program | peak allocated | phantom | fake | peak reserved | phantom | fake | sizes |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        cells = [row["program"], mebibytes(row["peak"]), row["phantom_peak"], row["fake_peak"]]
        cells += [mebibytes(row["reserved"]), row["phantom_reserved"], row["fake_reserved"]]
        cells.append("all equal" if row["phantom_sizes"] else "differ")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def mebibytes(count: int | None) -> str:
    """A number of bytes."""
    return "failed" if count is None else f"{count / 2**20:,.1f} MiB"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--record", type=Path, help="record on a real GPU, into this folder")
    parser.add_argument("--compare", type=Path, help="compare both engines with this recording")
    parser.add_argument("--one", choices=("phantom", "fake"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        found = on_phantom(args.compare) if args.one == "phantom" else on_fake_tensors(args.compare)
        print(json.dumps(found))
    elif args.compare:
        compare(args.compare)
    elif args.record:
        record(args.record)
    else:
        parser.error("give --record or --compare")


if __name__ == "__main__":
    main()
