"""Training scripts of many libraries under both engines: fake tensors against the phantom GPU.

    python bench/conformance/fake_matrix.py --floodmark FOLDER

Uses the environment of `phantom_matrix.py`, its scripts, and those of `bench/programs/fake`.
Every row runs once under each engine, in a process of its own; the peaks are compared. Exit status
1 when a script failed under an engine.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matrix
from matrix import SCRIPTS, gib, machine

OURS = SCRIPTS.with_name("fake")
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
    command = [*before, str(python), str(OURS / "one.py"), engine, row.ranks]
    done = matrix.run([*command, str(row.script), *row.arguments], floodmark, MOST_SECONDS)
    try:
        found: dict[str, Any] = json.loads(done.output.splitlines()[-1])
    except (ValueError, IndexError):
        found = {"failure": "no estimate came back", "seconds": 0.0}
    if found["failure"]:
        print(done.errors[-3000:], file=sys.stderr)
    return found


def fact(row: Row, results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The stored results of both runs of a row."""
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


def parts_of(about: dict[str, Any], facts: list[dict[str, Any]]) -> list[str]:
    """The parts of the page of results."""
    head = ["script", "rank"]
    for what in ("allocated", "reserved"):
        head += [f"{what}, fake", "phantom", "difference"]
    head += ["seconds, fake", "phantom"]
    notes = sorted({note for found in facts for note in found["fake"]["notes"]})
    return [
        f"{about['cpu']}, {about['cores']} cores, no GPU, Python {about['python']}, torch "
        f"{about['torch']}, {about['date']}. Peaks in GiB. The scripts are in "
        "`bench/programs/phantom` and `bench/programs/fake`. Seconds are those of the block "
        "with its imports.",
        machine.table(head, [as_row(found) for found in facts]),
        "Notes of the estimates with fake tensors:",
        "\n".join(f"- {note}" for note in notes),
    ]


def main() -> int:
    args = matrix.arguments(__doc__).parse_args()
    python = args.environment or matrix.scripts_environment(args.python)
    before = matrix.without_network()
    facts = []
    for row in ROWS:
        if args.only and args.only not in f"{row.what} {row.script.name}":
            continue
        results = {engine: run(row, engine, python, args.floodmark, before) for engine in ENGINES}
        facts.append(fact(row, results))
        print(" | ".join(as_row(facts[-1])), flush=True)
    about = machine.describe_host() | {"torch": matrix.torch_of(python)}
    verdicts = [
        (f"{found['what']}, {engine}: {found[engine]['failure']}", False)
        for found in facts
        for engine in ENGINES
        if found[engine]["failure"]
    ]
    result = {"machine": about, "rows": facts}
    title = "The same scripts with fake tensors and on a simulated H200"
    parts = parts_of(about, facts)
    return machine.finish("fake-matrix", title, parts, verdicts, result, args.results)


if __name__ == "__main__":
    sys.exit(main())
