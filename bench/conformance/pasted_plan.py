"""The code that a plan prints, pasted into a program, has the peak of the plan and the same loss.

    python bench/conformance/pasted_plan.py FOLDER          # anywhere: no GPU is needed
    python bench/conformance/pasted_plan.py FOLDER --gpu    # then, on a GPU

The program is a Qwen3 of 12 layers (`bench/programs/qwen3_accumulated.py`), the limit 60 % of what
it needs. Without `--gpu`, floodmark plans for it, the code is pasted where it says that it goes,
and the pasted program (`FOLDER/pasted.py`) runs on the simulated GPU and, with short sequences, on
the processor, where losses are computed. `--gpu` runs both programs on the GPU, as plain programs
without floodmark. Exit status 1 where a peak is not equal to the byte, or a loss or the norm of the
gradients differs by more than rounding.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

from plan_at_share import ROOT, STEPS, floodmark, plan_at_share
from plan_table import MIB, machine, named, store, stored_in

PROGRAM = ROOT / "bench/programs/qwen3_accumulated.py"
NAME = "pasted-plan"
SHARE = 0.6
GPU_STEPS = 6
#: What a processor computes in a minute.
ON_PROCESSOR = ("--device", "cpu", "--batch", "1", "--length", "128", "--steps", "2")
#: One rounding in bf16.
ROUNDING = 2**-8
PEAKS = ("peak_allocated", "peak_reserved")
HEAD = ["where", "program", "allocated, bytes", "reserved, bytes", "losses", "norms", "step, ms"]


def pasted(source: str, patch: str) -> str:
    """A program with each part of a patch where the part says that it goes."""
    tree = ast.walk(ast.parse(source))
    statements = [one for one in tree if isinstance(one, ast.Assign | ast.Import)]
    (optimizer,) = (one for one in statements if _assigns(one, "optimizer"))
    (torch,) = (
        one for one in statements if isinstance(one, ast.Import) and one.names[0].name == "torch"
    )
    places = {
        "# at the top of the program": (torch.lineno - 1, 0),
        "# after the optimizer is made": (optimizer.end_lineno or 0, optimizer.col_offset),
    }
    before = (optimizer.lineno - 1, optimizer.col_offset)
    pasted_at: dict[int, list[str]] = {}
    for part in re.split(r"\n(?=# [a-z0-9-]+(?:=\S+)?: )", patch):
        said = part.splitlines()[1]
        line, indent = next((at for place, at in places.items() if said.startswith(place)), before)
        code = textwrap.indent(part.strip(), " " * indent).splitlines()
        pasted_at.setdefault(line, []).extend([*code, ""])
    lines = source.splitlines()
    for line in sorted(pasted_at, reverse=True):
        lines[line:line] = pasted_at[line]
    return "\n".join(lines) + "\n"


def _assigns(statement: ast.stmt, name: str) -> bool:
    """Whether a statement gives a value to a variable."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(one, ast.Name) and one.id == name for one in targets)


def simulated(program: Path, gpu: str, memory: int) -> dict[str, Any]:
    """The peaks of a program on the simulated GPU with that much memory."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["--json", "--quiet", "-o", f"{folder}/a.flood", "--gpu", gpu]
        words += ["--memory", str(memory), "--steps", str(STEPS), str(program)]
        done = floodmark("estimate", *words)
    if not done.stdout:
        raise RuntimeError(f"no estimate\n{done.stderr[-2000:]}")
    found = json.loads(done.stdout)
    return {name: found[name] for name in ("fits", *PEAKS)}


def run(program: Path, *words: str) -> dict[str, Any]:
    """What a program by itself writes: times, losses, norms of gradients and torch's own peaks."""
    with tempfile.TemporaryDirectory() as folder:
        times = Path(folder) / "times.json"
        command = [sys.executable, str(program), *words, "--times", str(times)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if not times.exists():
            raise RuntimeError(f"{program.name} failed\n{done.stderr[-2000:]}")
        found: dict[str, Any] = json.loads(times.read_text())
    return found | dict(zip(PEAKS, found.pop("peaks"), strict=True))


def plan(folder: Path, gpu: str) -> None:
    """Plan, paste, run the pasted program on the simulated GPU, and both on the processor."""
    folder.mkdir(parents=True, exist_ok=True)
    found = plan_at_share(SHARE, gpu, str(PROGRAM))
    if found["plan"] is None:
        raise RuntimeError("nothing that was tried fits")
    shutil.copyfile(PROGRAM, folder / "unchanged.py")
    (folder / "pasted.py").write_text(pasted(PROGRAM.read_text(), found["patch"]))
    found["pasted"] = simulated(folder / "pasted.py", gpu, found["capacity"])
    store(folder, NAME, "", found)
    both = {name: run(folder / f"{name}.py", *ON_PROCESSOR) for name in ("unchanged", "pasted")}
    store(folder, NAME, ".processor", both)


def run_on_gpu(folder: Path) -> None:
    """Run both programs on the GPU."""
    names, words = ("unchanged", "pasted"), ("--steps", str(GPU_STEPS))
    measured = {name: run(folder / f"{name}.py", *words) for name in names}
    measured["machine"] = machine.describe()
    store(folder, NAME, ".gpu", measured)


def row(where: str, program: str, found: dict[str, Any]) -> list[str]:
    """A program, where it ran, and what is known of it."""
    peaks = [f"{found[peak]:,}" if found.get(peak) else "–" for peak in PEAKS]
    values = [
        ", ".join(f"{value:.4f}" for value in found.get(name, ())) or "–"
        for name in ("losses", "norms")
    ]
    taken = found.get("seconds", ())[1:]
    took = f"{statistics.median(taken) * 1e3:.0f}" if taken else "–"
    return [where, program, *peaks, *values, took]


def is_rounding(both: dict[str, Any]) -> bool:
    """Whether losses and norms of gradients of both programs differ by rounding alone."""
    return all(
        abs(ours - before) <= ROUNDING * abs(before)
        for name in ("losses", "norms")
        for ours, before in zip(both["pasted"][name], both["unchanged"][name], strict=True)
    )


def report(folder: Path, results: Path | None) -> int:
    """The page of all that was run; 1 if something is not as planned."""
    stored = stored_in(folder, NAME)
    found, processor, measured = stored(""), stored(".processor"), stored(".gpu")
    best, by_hand = found["plan"], found["pasted"]
    rows = [
        row("simulated", "unchanged", found["unchanged"]),
        row("simulated", "changed by the plan", best),
        row("simulated", "pasted", by_hand),
    ]

    def is_as_planned(one: dict[str, Any]) -> bool:
        return all(one[peak] == best[peak] for peak in PEAKS)

    verdicts = [
        ("the plan was proven on the simulated GPU", bool(found["is_proven"])),
        ("pasted, simulated: both peaks equal to the byte", is_as_planned(by_hand)),
        ("pasted, simulated: it fits within the limit", bool(by_hand["fits"])),
    ]
    about = machine.describe()
    for where, both in (("processor", processor), ("GPU", measured)):
        if both is None:
            continue
        rows += [row(where, name, both[name]) for name in ("unchanged", "pasted")]
        verdicts.append(
            (f"pasted, {where}: losses and norms differ by rounding", is_rounding(both))
        )
    if measured:
        same = is_as_planned(measured["pasted"])
        verdicts.append(("pasted, GPU: both peaks equal to the byte", same))
    limit = f"{found['capacity'] / MIB:,.0f} MiB, {SHARE:.0%} of what it needs"
    plan_of = f"The plan: {named(best['changes'])}, for a simulated {found['gpu']} with {limit}."
    parts = [
        "`bench/programs/qwen3_accumulated.py`: Qwen3 of 12 layers, hidden size 1,024, vocabulary "
        "151,936, bf16, two batches of 2 × 1,024 tokens for each step, clipped gradients, fused "
        "AdamW. " + plan_of + " Its code, "
        f"{len(found['patch'].splitlines())} lines, was pasted into the program. On the processor "
        "both programs train with batches of 1 × 128 tokens.",
        machine.sentence(about),
        *([f"GPU: {machine.sentence(measured['machine'])}"] if measured else []),
        machine.table(HEAD, rows),
    ]
    kept = {
        "machine": about,
        "plan": {name: found[name] for name in ("gpu", "capacity", "unchanged", "plan", "pasted")},
        "processor": processor,
        "gpu": measured,
    }
    title = "The code of a plan, pasted into the program"
    return machine.finish(NAME, title, parts, verdicts, kept, results)


def main() -> int:
    parser = machine.arguments(__doc__)
    parser.add_argument("folder", type=Path, help="folder of the plan and of both programs")
    parser.add_argument("--gpu", action="store_true", help="run both programs on the GPU")
    parser.add_argument("--profile", default="h200", help="the GPU to plan for")
    args = parser.parse_args()
    if args.gpu:
        run_on_gpu(args.folder)
    else:
        plan(args.folder, args.profile)
    return report(args.folder, args.results)


if __name__ == "__main__":
    sys.exit(main())
