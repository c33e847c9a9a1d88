"""What cuDNN and cuBLASLt choose for a program: engines, algorithms and their workspaces.

    python bench/conformance/library_choices.py record real.json PROGRAM.py [ARGS…]
    python bench/conformance/library_choices.py record --simulated h200 simulated.json PROGRAM.py …
    python bench/conformance/library_choices.py compare real.json simulated.json

`record` runs the program with the libraries' own logs on, and with torch's memory history, whose
allocation right after a plan was asked for its workspace is that workspace. `--simulated` runs it
on a simulated GPU, where the real cuDNN plans too, and cuBLASLt has no log. `compare` prints the
operations that differ, the most bytes first. Run `record` on a GPU with the torch and the cuDNN
that the estimate has: the choices belong to their versions.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import datetime
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Choice = dict[str, Any]

#: `cudnnBackendHeurMode_t`.
MODES = {0: "instant", 1: "b", 2: "fallback", 3: "a"}
PLAN = "CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR"
TENSORS = ("xDesc", "wDesc", "yDesc", "dxDesc", "dwDesc", "dyDesc")

#: A line of a cuDNN log inside a call: indentation, name, type or value.
FIELD = re.compile(r"^i!( +)([^:]+): type=([^;:]*)(?:; val=(.*?);?)?:?;?$")
TIME = re.compile(r"^i! Time: (\S+) ")
THREAD = re.compile(r"Thread=(\d+)")
CALL = re.compile(r"^I! CuDNN .* function (\w+)\(\) called:")
#: A call in a log of cuBLASLt, and what it was given: `name=[…]` or `name=word`.
PRODUCT = re.compile(r"\[(cublasLtMatmul\w*)\] (.*)")
ARGUMENT = re.compile(r"(\w+)=(\[[^\]]*\]|\S+)")


def calls(log: Path) -> Iterator[tuple[str, float, str, list[tuple[int, str, str, str]]]]:
    """Each call of a cuDNN log: its name, its time, its thread, and its lines."""
    name, time, lines = "", 0.0, []
    with log.open(errors="replace") as file:
        for line in file:
            line = line.rstrip("\n")
            if begun := CALL.match(line):
                name, lines = begun[1], []
            elif at := TIME.match(line):
                moment = datetime.datetime.fromisoformat(at[1] + "+00:00")
                time = moment.timestamp() * 1e6
            elif name and (thread := THREAD.search(line)):
                yield name, time, thread[1], lines
                name = ""
            elif field := FIELD.match(line):
                lines.append((len(field[1]), field[2], field[3], field[4] or ""))


def plain(text: str) -> Any:
    """A value without its number behind it: `CUDNN_DATA_FLOAT (0)`; numbers and lists as such."""
    text = re.sub(r" \(\d+\)$", "", text)
    with contextlib.suppress(ValueError):
        return json.loads(text)
    return text


def plan_of(lines: list[tuple[int, str, str, str]]) -> Choice:
    """The operation, the tensors and the engine of a plan."""
    plan: Choice = {"operation": "", "tensors": {}, "convolution": {}, "engine": None, "knobs": {}}
    inside: list[tuple[int, str]] = []
    for indent, name, kind, text in lines:
        while inside and inside[-1][0] >= indent:
            inside.pop()
        outer = inside[-1][1] if inside else ""
        if kind.startswith("CUDNN_BACKEND_OPERATION_"):
            plan["operation"] = kind.removeprefix("CUDNN_BACKEND_OPERATION_")
            plan["operation"] = plan["operation"].removesuffix("_DESCRIPTOR").lower()
        elif outer in TENSORS and name in ("type", "dimA", "strideA"):
            plan["tensors"].setdefault(outer, {})[name] = plain(text)
        elif outer == "convDesc" and name != "nbDims":
            plan["convolution"][name] = plain(text)
        elif name == "engine_id":
            plan["engine"] = plain(text)
        elif name.startswith("CUDNN_KNOB_TYPE_"):
            plan["knobs"][name.removeprefix("CUDNN_KNOB_TYPE_").lower()] = plain(text)
        inside.append((indent, name))
    return plan


def plans(log: Path, allocations: list[tuple[float, int]]) -> list[Choice]:
    """The plans whose workspace the program queried, with the allocation for it."""
    modes: dict[str, str] = {}
    found: list[Choice] = []
    waiting: dict[str, Choice] = {}
    for name, time, thread, lines in calls(log):
        given = {field: text for _, field, _, text in lines}
        if thread in waiting and name == "cudnnBackendCreateDescriptor":
            # The arguments of the execution: the workspace is one of them.
            waiting.pop(thread)["until"] = time
        attribute = given.get("attributeName", "")
        if name == "cudnnBackendSetAttribute" and "ENGINEHEUR_MODE" in attribute:
            modes[thread] = MODES.get(int(plain(given.get("[0]", "0"))), "unknown")
        is_plan = any(kind == PLAN for _, _, kind, _ in lines)
        if is_plan and "EXECUTION_PLAN_WORKSPACE_SIZE" in attribute:
            asked = plan_of(lines) | {"mode": modes.get(thread), "from": time, "until": None}
            waiting[thread] = asked
            found.append(asked)
    for plan in found:
        begin, end = plan.pop("from"), plan.pop("until") or float("inf")
        sizes = [size for at, size in allocations if begin <= at <= end]
        plan["workspace_bytes"] = sizes[0] if sizes else 0
    return found


def products(log: Path) -> list[Choice]:
    """The products of a cuBLASLt log, as it has them. Addresses differ from run to run."""
    found = []
    for line in log.read_text(errors="replace").splitlines() if log.exists() else ():
        if call := PRODUCT.search(line):
            words = {key: text for key, text in ARGUMENT.findall(call[2]) if "0X" not in text}
            found.append({"operation": call[1], **words})
    return found


def run_here(out: Path, gpu: str, program: str, arguments: list[str]) -> None:
    """Run the program, and store its allocations."""
    if gpu:
        import floodmark

        floodmark.phantom(gpu).__enter__()
    import torch

    memory: Any = torch.cuda.memory
    memory._record_memory_history(context=None, stacks="python", max_entries=10_000_000)
    sys.argv = [program, *arguments]
    sys.path.insert(0, str(Path(program).parent))
    try:
        runpy.run_path(program, run_name="__main__")
    finally:
        events = [event for trace in memory._snapshot()["device_traces"] for event in trace]
        allocated = [(e["time_us"], e["size"]) for e in events if e["action"] == "alloc"]
        about = {
            "gpu": torch.cuda.get_device_name(0),
            "torch": torch.__version__,
            "cudnn": torch.backends.cudnn.version(),
            "cuda": torch.version.cuda,
            "peak_allocated": torch.cuda.max_memory_allocated(),
            "peak_reserved": torch.cuda.max_memory_reserved(),
        }
        out.write_text(json.dumps({"about": about, "allocations": allocated}))


def record(out: Path, gpu: str, program: str, arguments: list[str]) -> int:
    """Run the program in a process with logs, and store the choices."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = os.environ | {
            "CUDNN_LOGLEVEL_DBG": "3",
            "CUDNN_LOGDEST_DBG": str(folder / "cudnn.log"),
            "CUBLASLT_LOG_LEVEL": "5",
            "CUBLASLT_LOG_FILE": str(folder / "cublaslt.log"),
            # The times of cuDNN's log are those of the machine.
            "TZ": "UTC",
        }
        words = [sys.executable, __file__, "run", "--simulated", gpu, str(folder / "run.json")]
        done = subprocess.run([*words, program, *arguments], env=environment, check=False)
        if not (folder / "run.json").exists():
            return done.returncode or 1
        ran = json.loads((folder / "run.json").read_text())
        log = folder / "cudnn.log"
        allocations = [(at, size) for at, size in ran["allocations"]]
        chosen = plans(log, allocations) if log.exists() else []
        found = {"about": ran["about"], "plans": chosen}
        found["products"] = products(folder / "cublaslt.log")
    out.write_text(json.dumps(found, indent=1))
    kinds = collections.Counter(plan["operation"] for plan in found["plans"])
    print(f"{out}: {dict(kinds)}, {len(found['products'])} calls of cuBLASLt")
    return done.returncode


def key_of(plan: Choice) -> str:
    """The key of a plan: its operation and tensors."""
    return json.dumps([plan["operation"], plan["tensors"], plan["convolution"]], sort_keys=True)


def compare(real: Path, simulated: Path) -> int:
    """Print the operations whose plans differ; the number of them is not an error."""
    both = [json.loads(path.read_text()) for path in (real, simulated)]
    for found in both:
        print(json.dumps(found["about"]))
    ours = {key_of(plan): plan for plan in both[1]["plans"]}
    rows = []
    equal = 0
    for key, plan in {key_of(plan): plan for plan in both[0]["plans"]}.items():
        other = ours.get(key)
        fields = ("mode", "engine", "knobs", "workspace_bytes")
        if other is not None and all(plan[field] == other[field] for field in fields):
            equal += 1
            continue
        rows.append(
            (
                plan["workspace_bytes"] - (other or {"workspace_bytes": 0})["workspace_bytes"],
                plan,
                other,
            )
        )
    print(f"{equal} plans are equal, {len(rows)} differ")
    for difference, plan, other in sorted(rows, key=lambda row: -abs(row[0])):
        sizes = {name: tensor["dimA"] for name, tensor in plan["tensors"].items()}
        kinds = {tensor["type"] for tensor in plan["tensors"].values()}
        print(f"{difference:+} bytes: {plan['operation']} {sizes} {sorted(kinds)}")
        for name, one in (("real", plan), ("simulated", other)):
            words = (
                "none"
                if one is None
                else (
                    f"mode {one['mode']}, engine {one['engine']}, {one['knobs']}, "
                    f"workspace {one['workspace_bytes']}"
                )
            )
            print(f"    {name}: {words}")
    return 0


def main() -> int:
    """Record, compare, or run a program for a recording."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("record", "run"):
        command = commands.add_parser(name)
        command.add_argument("--simulated", metavar="GPU", default="")
        command.add_argument("out", type=Path)
        command.add_argument("program")
        command.add_argument("arguments", nargs=argparse.REMAINDER)
    command = commands.add_parser("compare")
    command.add_argument("real", type=Path)
    command.add_argument("simulated", type=Path)
    options = parser.parse_args()
    if options.command == "compare":
        return compare(options.real, options.simulated)
    if options.command == "run":
        run_here(options.out, options.simulated, options.program, options.arguments)
        return 0
    return record(options.out, options.simulated, options.program, options.arguments)


if __name__ == "__main__":
    sys.exit(main())
