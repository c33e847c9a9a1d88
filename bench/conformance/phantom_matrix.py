"""Unchanged training scripts of many libraries, on a simulated GPU.

    python bench/conformance/phantom_matrix.py --floodmark FOLDER

Makes a virtual environment with the versions of `bench/programs/phantom/requirements.txt`, runs
every row as `python -m floodmark estimate --json`, cut off from the network where the system lets
us, and writes down whether it came to its end, its peaks, its time, and what the figures rest on.
Exit status 1 when a script failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH))

import machine  # noqa: E402

ROOT = BENCH.parent
SCRIPTS = BENCH / "programs" / "phantom"
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


def make_environment(python: str) -> Path:
    """A virtual environment with what the scripts need; made anew when that changes."""
    wanted = SCRIPTS / "requirements.txt"
    folder = ROOT / ".venvs" / "phantom-matrix"
    done = folder / "requirements.txt"
    found = folder / "bin" / "python"
    if not (done.exists() and done.read_text() == wanted.read_text()):
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        pip = [str(found), "-m", "pip", "install", "--quiet", "--progress-bar", "off"]
        subprocess.run([*pip, "-r", str(wanted)], check=True)
        done.write_text(wanted.read_text())
    return found


def cut_off() -> list[str]:
    """A command before which there is no network, where the system has one."""
    command = ["unshare", "--map-root-user", "--net"]
    try:
        works = subprocess.run([*command, "true"], capture_output=True).returncode == 0
    except OSError:
        works = False
    return command if works else []


def run(row: Row, python: Path, floodmark: Path, before: list[str]) -> dict[str, Any]:
    """Run one row; what the estimate says, and what it took."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    offline = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    with tempfile.TemporaryDirectory() as folder:
        env = kept | offline | {"PYTHONPATH": str(floodmark.resolve()), "TMPDIR": folder}
        command = [str(python), "-m", "floodmark", "estimate", "--json", "--quiet", "--gpu", GPU]
        command += ["-o", os.path.join(folder, "trace.flood"), *row.options]
        command = [*before, *command, str(SCRIPTS / row.script)]
        start = time.monotonic()
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
            status, out, words = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired:
            status, out, words = -1, "", f"not done after {MOST_SECONDS} s"
        seconds = time.monotonic() - start
    try:
        estimate = json.loads(out)
    except ValueError:
        estimate = {"ended": "failed", "error": "no estimate came back"}
    if status or estimate["ended"] != "done":
        print(words[-4000:], file=sys.stderr)
        estimate["ended"] = "failed" if estimate["ended"] == "done" else estimate["ended"]
    return {"seconds": seconds} | estimate


def short(path: str) -> str:
    """A file without the folders of this machine."""
    for mark in ("/site-packages/", "/phantom/"):
        path = path.rpartition(mark)[2]
    return path


def fact(row: Row, result: dict[str, Any]) -> dict[str, Any]:
    """What is written down of a result."""
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


def gib(size: int) -> str:
    return f"{size / (1 << 30):.3f}"


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


def text_of(about: dict[str, Any], facts: list[dict[str, Any]]) -> str:
    head = [
        "script",
        "rank",
        "to its end",
        "steps",
        "peak allocated, GiB",
        "peak reserved, GiB",
        "seconds",
        "rests on",
    ]
    network = "without a network" if about["is_cut_off"] else "with a network that they do not need"
    lines = [
        "# Unchanged scripts on a phantom H200",
        "",
        f"{about['cpu']}, {about['cores']} cores, no GPU, Python {about['python']}, torch "
        f"{about['torch']}, {about['date']}. The scripts are in `bench/programs/phantom`, the "
        f"versions of their libraries in its `requirements.txt`; they ran {network}. Seconds are "
        "those of the whole process with its imports and the report.",
        "",
        machine.table(head, [as_row(found) for found in facts]),
        "",
        "A script rests on values that it read back and that were not known: losses that are "
        "printed, norms, flags. Where, how often, and what was answered:",
        "",
    ]
    for found in facts:
        lines += [f"- {found['what']}{_as_rank(found)}: {_rests(found)}"]
    return "\n".join(lines)


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


def version_of(python: Path, name: str) -> str:
    code = f"from importlib.metadata import version; print(version({name!r}))"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--floodmark", type=Path, required=True, help="where floodmark lies")
    parser.add_argument("--python", default=sys.executable, help="makes the environment")
    parser.add_argument("--environment", type=Path, help="its Python, if there is one already")
    parser.add_argument("--only", help="rows whose script has this in its name")
    parser.add_argument("--results", type=Path)
    args = parser.parse_args()
    python = args.environment or make_environment(args.python)
    before = cut_off()
    facts = []
    for row in ROWS:
        if args.only and args.only not in row.script:
            continue
        facts.append(fact(row, run(row, python, args.floodmark, before)))
        print(" | ".join(as_row(facts[-1])), flush=True)
    about = machine.describe_host() | {
        "torch": version_of(python, "torch"),
        "is_cut_off": bool(before),
    }
    machine.write(
        "phantom-matrix", {"machine": about, "rows": facts}, text_of(about, facts), args.results
    )
    return 0 if all(found["ended"] == "done" for found in facts) else 1


if __name__ == "__main__":
    sys.exit(main())
