"""Unchanged training scripts of many libraries, on a simulated GPU.

    python bench/conformance/phantom_matrix.py --floodmark FOLDER

Makes a virtual environment with the versions of `bench/programs/phantom/requirements.txt`, runs
every row as `python -m floodmark estimate --json`, cut off from the network where the system lets
us, and writes down whether it came to its end, its peaks, its time, and what the figures rest on.
Exit status 1 when a script failed.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matrix
from matrix import SCRIPTS, gib, machine

GPU = "h200"
MOST_SECONDS = 600


@dataclass(frozen=True)
class Row:
    """A script, and as which rank of which world it runs."""

    what: str
    script: str
    rank: int | None = None
    world: int | None = None

    @property
    def ranks(self) -> str:
        return "" if self.world is None else f"{self.rank} of {self.world:,}"

    @property
    def options(self) -> list[str]:
        if self.world is None:
            return []
        return ["--rank", str(self.rank), "--world", str(self.world)]


ROWS = [
    Row("plain loop: ResNet-18, loader workers, AMP, GradScaler", "plain_amp.py"),
    Row("transformers Trainer: GPT-2, bf16", "hf_trainer.py"),
    Row("PyTorch Lightning: fit and validate", "lightning_fit.py"),
    Row("accelerate: BERT, bf16, accumulated gradients", "accelerate_loop.py"),
    Row("peft: LoRA on a Llama 1B", "peft_lora.py"),
    Row("bitsandbytes: AdamW8bit, GPT-2 medium", "bnb_adam8bit.py"),
    Row("DDP: 12 transformer layers", "ddp.py", 0, 8),
    Row("DDP: the same", "ddp.py", 1023, 1024),
    Row("FSDP2: Llama 8B", "fsdp2.py", 0, 8),
    Row("FSDP2: the same", "fsdp2.py", 0, 64),
    Row("FSDP2: the same", "fsdp2.py", 63, 64),
    Row("FSDP2: Llama 70B, s 4096", "fsdp2_70b.py", 0, 64),
    Row("FSDP2: the same", "fsdp2_70b.py", 63, 64),
    Row("FSDP2: the same", "fsdp2_70b.py", 1023, 1024),
    Row("megatron-core GPT: TP 2 × PP 2", "megatron_gpt.py", 0, 4),
    Row("megatron-core GPT: the same", "megatron_gpt.py", 3, 4),
    Row("megatron-core GPT: the same, with data parallelism 256", "megatron_gpt.py", 1023, 1024),
    Row("DeepSpeed ZeRO 2: GPT-2 medium, bf16", "deepspeed_zero2.py", 3, 8),
]


def run(row: Row, python: Path, floodmark: Path, before: list[str]) -> dict[str, Any]:
    """Run one row; returns its estimate and its time."""
    command = [*before, str(python), "-m", "floodmark", "estimate", "--json", "--quiet"]
    command += ["--gpu", GPU, "-o", "{folder}/trace.flood", *row.options]
    start = time.monotonic()
    done = matrix.run([*command, str(SCRIPTS / row.script)], floodmark, MOST_SECONDS)
    seconds = time.monotonic() - start
    try:
        estimate = json.loads(done.output)
    except ValueError:
        estimate = {"ended": "failed", "error": "no estimate came back"}
    if done.status or estimate["ended"] != "done":
        print(done.errors[-4000:], file=sys.stderr)
        estimate["ended"] = "failed" if estimate["ended"] == "done" else estimate["ended"]
    return {"seconds": seconds} | estimate


def short(path: str) -> str:
    """A file without the folders of this machine."""
    for mark in ("/site-packages/", "/phantom/"):
        path = path.rpartition(mark)[2]
    return path


def fact(row: Row, result: dict[str, Any]) -> dict[str, Any]:
    """The stored part of a result."""
    reads = [
        {
            "location": f"{short(read['file'])}:{read['line']}",
            "count": read["count"],
            "answered": read["answered"],
            "why": read["why"],
        }
        for read in result.get("reads", [])
    ]
    refused = [f"{call['library']}: {call['name']}" for call in result.get("unsupported", [])]
    return {
        "what": row.what,
        "script": row.script,
        "rank": row.rank,
        "world": row.world,
        "ended": result["ended"],
        "error": result.get("error", ""),
        "steps": result.get("steps"),
        "peak_allocated": result.get("peak_allocated", 0),
        "peak_reserved": result.get("peak_reserved", 0),
        "seconds": round(result["seconds"], 1),
        "reads": reads,
        "refused": refused,
    }


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def as_row(found: dict[str, Any]) -> list[str]:
    world = "" if found["world"] is None else f"{found['rank']:,} of {found['world']:,}"
    ended = "yes" if found["ended"] == "done" else f"**{found['ended']}**"
    count = sum(read["count"] for read in found["reads"])
    rests = (
        f"{_counted(count, 'read')} in {_counted(len(found['reads']), 'line')}"
        if count
        else "nothing"
    )
    return [
        f"{found['what']} (`{found['script']}`)",
        world,
        ended,
        str(found["steps"] or ""),
        gib(found["peak_allocated"]),
        gib(found["peak_reserved"]),
        f"{found['seconds']:.1f}",
        rests,
    ]


HEAD = ["script", "rank", "to its end", "steps", "peak allocated, GiB", "peak reserved, GiB"]
HEAD += ["seconds", "rests on"]


def parts_of(about: dict[str, Any], facts: list[dict[str, Any]]) -> list[str]:
    """The parts of the page of results."""
    network = "without a network" if about["is_cut_off"] else "with a network that they do not need"
    rests = [f"- {found['what']}{_as_rank(found)}: {_rests(found)}" for found in facts]
    return [
        f"{about['cpu']}, {about['cores']} cores, no GPU, Python {about['python']}, torch "
        f"{about['torch']}, {about['date']}. The scripts are in `bench/programs/phantom`, the "
        f"versions of their libraries in its `requirements.txt`; they ran {network}. Seconds are "
        "those of the whole process with its imports and the report.",
        machine.table(HEAD, [as_row(found) for found in facts]),
        "A script rests on values that it read back and that were not known: losses that are "
        "printed, norms, flags. Their lines, counts and assumed values:",
        "\n".join(rests),
    ]


def _as_rank(found: dict[str, Any]) -> str:
    return "" if found["world"] is None else f" (rank {found['rank']:,} of {found['world']:,})"


def _rests(found: dict[str, Any]) -> str:
    reads = [
        f"`{read['location']}` {read['count']} × {read['answered'] or 'nothing'}"
        for read in found["reads"]
    ]
    if found["refused"]:
        reads.append("refused " + ", ".join(f"`{name}`" for name in found["refused"]))
    return "; ".join(reads) or "nothing"


def main() -> int:
    args = matrix.arguments(__doc__).parse_args()
    python = args.environment or matrix.scripts_environment(args.python)
    before = matrix.without_network()
    facts = []
    for row in ROWS:
        if args.only and args.only not in row.script:
            continue
        facts.append(fact(row, run(row, python, args.floodmark, before)))
        print(" | ".join(as_row(facts[-1])), flush=True)
    facts_of_host = {"torch": matrix.torch_of(python), "is_cut_off": bool(before)}
    about = machine.describe_host() | facts_of_host
    verdicts = [(found["what"], False) for found in facts if found["ended"] != "done"]
    result = {"machine": about, "rows": facts}
    title = "Unchanged scripts on a simulated H200"
    parts = parts_of(about, facts)
    return machine.finish("phantom-matrix", title, parts, verdicts, result, args.results)


if __name__ == "__main__":
    sys.exit(main())
