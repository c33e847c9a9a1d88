"""Training scripts of many libraries under both engines: fake tensors against the phantom GPU.

    python bench/conformance/fake_matrix.py --floodmark FOLDER

Uses the environment and the scripts of `phantom_matrix.py`, and those of `bench/programs/fake`.
Every row runs once under each engine, in a process of its own; the peaks are compared. Exit status
1 when a script failed under an engine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH))

import machine  # noqa: E402
from phantom_matrix import (  # noqa: E402
    SCRIPTS,
    cut_off,
    gib,
    make_environment,
    version_of,
)

OURS = BENCH / "programs" / "fake"
MOST_SECONDS = 900
ENGINES = ("fake", "phantom")


@dataclass(frozen=True)
class Row:
    """A script with its arguments, and as which rank of which world it runs."""

    what: str
    script: Path
    ranks: str = "-"
    arguments: tuple[str, ...] = ()


def _megatron(what: str, ranks: str, *arguments: str) -> Row:
    return Row(f"megatron-core GPT: {what}", OURS / "megatron_parallel.py", ranks, arguments)


ROWS = [
    Row("plain loop: ResNet-18, loader workers, AMP, GradScaler", SCRIPTS / "plain_amp.py"),
    Row("transformers Trainer: GPT-2, bf16", SCRIPTS / "hf_trainer.py"),
    Row("transformers generate: KV cache, sampling", OURS / "generate.py"),
    Row("PyTorch Lightning: fit and validate", SCRIPTS / "lightning_fit.py"),
    Row("accelerate: BERT, bf16, accumulated gradients", SCRIPTS / "accelerate_loop.py"),
    Row("peft: LoRA on a Llama 1B", SCRIPTS / "peft_lora.py"),
    Row("bitsandbytes: AdamW8bit, GPT-2 medium", SCRIPTS / "bnb_adam8bit.py"),
    _megatron("TP 2 × PP 2", "0/4", "tp=2", "pp=2"),
    _megatron("the same, last stage", "3/4", "tp=2", "pp=2"),
    _megatron("distributed optimizer", "0/4", "distopt=1"),
    _megatron("full recomputation", "0/4", "recompute=1"),
    _megatron("virtual stages", "0/4", "vpp=2"),
    _megatron("TP 8 × PP 8", "0/1024", "tp=8", "pp=8"),
    _megatron("the same, last stage", "1023/1024", "tp=8", "pp=8"),
    Row("DeepSpeed ZeRO 2: GPT-2 medium, bf16", SCRIPTS / "deepspeed_zero2.py", "3/8"),
]


def run(row: Row, engine: str, python: Path, floodmark: Path, before: list[str]) -> dict[str, Any]:
    """Run one row under one engine."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    offline = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    with tempfile.TemporaryDirectory() as folder:
        env = kept | offline | {"PYTHONPATH": str(floodmark.resolve()), "TMPDIR": folder}
        command = [*before, str(python), str(OURS / "one.py"), engine, row.ranks]
        command += [str(row.script), *row.arguments]
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=env,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=MOST_SECONDS,
            )
            out, words = done.stdout, done.stderr
        except subprocess.TimeoutExpired:
            out, words = "", f"not done after {MOST_SECONDS} s"
    try:
        found: dict[str, Any] = json.loads(out.splitlines()[-1])
    except (ValueError, IndexError):
        found = {"failure": "no estimate came back", "seconds": 0.0}
    if found["failure"]:
        print(words[-3000:], file=sys.stderr)
    return found


def fact(row: Row, results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What is written down of both runs of a row."""
    found: dict[str, Any] = {
        "what": row.what,
        "script": " ".join([row.script.name, *row.arguments]),
        "ranks": row.ranks,
    }
    for engine, result in results.items():
        found[engine] = {
            "failure": result["failure"][:200],
            "peak_allocated": result.get("peak_allocated", 0),
            "peak_reserved": result.get("peak_reserved", 0),
            "seconds": round(result["seconds"], 1),
            "reads": len(result.get("reads", [])),
            "notes": result.get("notes", []),
        }
    return found


def difference(found: dict[str, Any], what: str) -> str:
    """How far fake tensors are from the phantom."""
    fake, phantom = found["fake"][what], found["phantom"][what]
    if found["fake"]["failure"] or found["phantom"]["failure"] or not phantom:
        return ""
    return f"{100 * (fake - phantom) / phantom:+.2f} %"


def as_row(found: dict[str, Any]) -> list[str]:
    cells = [f"{found['what']} (`{found['script']}`)", found["ranks"].replace("/", " of ")]
    for what in ("peak_allocated", "peak_reserved"):
        for engine in ENGINES:
            failed = found[engine]["failure"]
            cells.append(f"**{failed.partition(':')[0]}**" if failed else gib(found[engine][what]))
        cells.append(difference(found, what))
    return [*cells, *(f"{found[engine]['seconds']:.1f}" for engine in ENGINES)]


def text_of(about: dict[str, Any], facts: list[dict[str, Any]]) -> str:
    head = ["script", "rank"]
    for what in ("allocated", "reserved"):
        head += [f"{what}, fake", "phantom", "difference"]
    head += ["seconds, fake", "phantom"]
    lines = [
        "# The same scripts with fake tensors and on a phantom H200",
        "",
        f"{about['cpu']}, {about['cores']} cores, no GPU, Python {about['python']}, torch "
        f"{about['torch']}, {about['date']}. Peaks in GiB. The scripts are in "
        "`bench/programs/phantom` and `bench/programs/fake`. Seconds are those of the block "
        "with its imports.",
        "",
        machine.table(head, [as_row(found) for found in facts]),
        "",
        "What the estimates with fake tensors say of themselves:",
        "",
    ]
    said = sorted({note for found in facts for note in found["fake"]["notes"]})
    lines += [f"- {note}" for note in said]
    failed = [
        f"- {found['what']}, {engine}: {found[engine]['failure']}"
        for found in facts
        for engine in ENGINES
        if found[engine]["failure"]
    ]
    return "\n".join([*lines, *(["", "What failed:", "", *failed] if failed else [])])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--floodmark", type=Path, required=True, help="where floodmark lies")
    parser.add_argument("--python", default=sys.executable, help="makes the environment")
    parser.add_argument("--environment", type=Path, help="its Python, if there is one already")
    parser.add_argument("--only", help="rows that have this in their description or script")
    parser.add_argument("--results", type=Path)
    args = parser.parse_args()
    python = args.environment or make_environment(args.python)
    before = cut_off()
    facts = []
    for row in ROWS:
        if args.only and args.only not in f"{row.what} {row.script.name}":
            continue
        results = {engine: run(row, engine, python, args.floodmark, before) for engine in ENGINES}
        facts.append(fact(row, results))
        print(" | ".join(as_row(facts[-1])), flush=True)
    about = machine.describe_host() | {"torch": version_of(python, "torch")}
    machine.write(
        "fake-matrix", {"machine": about, "rows": facts}, text_of(about, facts), args.results
    )
    return 1 if any(found[engine]["failure"] for found in facts for engine in ENGINES) else 0


if __name__ == "__main__":
    sys.exit(main())
