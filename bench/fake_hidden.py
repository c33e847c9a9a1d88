"""What kernels take inside on a phantom GPU, against the rules of `floodmark-fake`.

    python bench/fake_hidden.py [--only attention] [--no-write]

Runs the programs of `hidden_cases.py` and, for convolutions, a step of some networks; looks into
every call (`hidden_watch.py`); asks the rules (`cargo run --example hidden`). Writes
`fixtures/hidden/calls.jsonl`, which the crate's tests read, and `bench/results/fake-hidden.md`.
"""

from __future__ import annotations

import argparse
import collections
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import machine

import floodmark

HERE = Path(__file__).resolve().parent
FIXTURE = HERE.parent / "fixtures" / "hidden" / "calls.jsonl"
MIB = 1 << 20
#: A call that takes less is of no interest.
LEAST = MIB


def watched(only: str) -> list[dict[str, Any]]:
    """Every call of every program."""
    import hidden_cases
    from hidden_watch import Watch

    calls: list[dict[str, Any]] = []
    for family in hidden_cases.FAMILIES:
        if only not in family.__name__:
            continue
        began = time.time()
        for name, program in family():
            watch = Watch(f"{family.__name__}: {name}")
            try:
                with watch:
                    program()
            except RuntimeError as error:
                print(f"{name}: {str(error).splitlines()[0]}", file=sys.stderr)
            calls += watch.calls
        print(f"{family.__name__}: {time.time() - began:.0f} s", file=sys.stderr)
    if only in "convolutions":
        calls += networks()
    return calls


def networks() -> list[dict[str, Any]]:
    """Convolutions of networks, forward and backward."""
    import hidden_networks
    from hidden_watch import Watch

    calls: list[dict[str, Any]] = []
    for name, program in hidden_networks.programs():
        watch = Watch(f"convolutions: {name}", with_fake=False)
        with watch:
            program()
        calls += [call for call in watch.calls if "convolution" in call["op"]]
    return calls


def warm() -> None:
    """cuBLAS's workspaces of both threads come with their first product."""
    import torch

    for _ in range(2):
        one = torch.empty(64, 64, device="cuda", requires_grad=True)
        row = torch.empty(64, device="cuda", requires_grad=True)
        torch.addmm(row, one, one).sum().backward()


def chosen(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each call once; of operators that take nothing inside, one of each type."""
    seen: set[Any] = set()
    kept = []
    for call in calls:
        if call["peak"] < LEAST and not call["kept"]:
            continue
        takes = call["peak"] > call["made"] + 4096 or "fake" in call
        key = (call["op"], json.dumps(call["args"]) if takes else json.dumps(call["args"][:1])[:16])
        if key not in seen:
            seen.add(key)
            kept.append(call)
    return kept


def asked(calls: list[dict[str, Any]]) -> list[tuple[int, int, int]]:
    """For each call: its peak by the rules, its peak, and what the results took."""
    command = ["cargo", "run", "-q", "-p", "floodmark-fake", "--example", "hidden"]
    lines = "".join(json.dumps(call) + "\n" for call in calls)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    peaks = [line.split() for line in done.stdout.splitlines()]
    return [
        (int(found), int(peak), call["made"])
        for (found, peak), call in zip(peaks, calls, strict=True)
    ]


def table(calls: list[dict[str, Any]], answers: list[tuple[int, int, int]]) -> str:
    """What was found, for people."""
    import torch

    ops: dict[str, list[tuple[int, int, int, dict[str, Any]]]] = collections.defaultdict(list)
    for call, (found, peak, made) in zip(calls, answers, strict=True):
        ops[call["op"]].append((found - peak, peak, made, call))
    wrong = {
        op: [row for row in rows if abs(row[0]) > max(MIB, row[1] // 100)]
        for op, rows in ops.items()
    }
    right = sum(not rows for rows in wrong.values())
    text = [
        "# What kernels take inside: rules against torch",
        "",
        f"`python bench/fake_hidden.py`, torch {torch.__version__}, a phantom H200, no GPU; "
        f"{host()}.",
        "",
        f"{len(calls)} calls of {len(ops)} operators whose results or temporaries take 1 MiB or "
        "more. A call is right when its own peak (results and what it takes inside) is met to "
        f"1 MiB or 1 %, whichever is more. {right} operators are right in every call.",
        "",
        "For recurrent nets and Fourier transforms the phantom answers by models, which the rules "
        "follow: that they agree says nothing of a GPU.",
        "",
        "| operator | calls | wrong | hidden at most, MiB | worst, MiB | of its peak |",
        "|---|---|---|---|---|---|",
    ]

    def worst(op: str) -> int:
        return max(abs(row[0]) for row in ops[op])

    for op in sorted(ops, key=worst, reverse=True):
        rows = ops[op]
        hidden = max(peak - made for _, peak, made, _ in rows)
        if hidden < 4096 and not wrong[op]:
            continue
        off, peak, _, _ = max(rows, key=lambda row: abs(row[0]))
        share = f"{100 * off / peak:+.1f} %" if peak else ""
        text.append(
            f"| `{op}` | {len(rows)} | {len(wrong[op])} | {hidden / MIB:.1f} | "
            f"{off / MIB:+.2f} | {share} |"
        )
    plain = sorted(op for op, rows in ops.items() if max(p - m for _, p, m, _ in rows) < 4096)
    text += ["", f"Nothing inside: {', '.join(f'`{op}`' for op in plain if not wrong[op])}.", ""]
    text += networks_table(calls, answers)
    text += results_table(calls)
    return "\n".join(text) + "\n"


def host() -> str:
    """The machine, in words."""
    about = machine.describe_host()
    return ", ".join(str(about[key]) for key in ("cpu", "date") if key in about)


def networks_table(calls: list[dict[str, Any]], answers: list[tuple[int, int, int]]) -> list[str]:
    """How far off convolutions are, network by network."""
    rows: dict[str, list[tuple[int, int, int]]] = collections.defaultdict(list)
    for call, (found, peak, made) in zip(calls, answers, strict=True):
        if call["case"].startswith("convolutions: "):
            rows[call["case"].split(": ")[1]].append((found, peak, made))
    if not rows:
        return []
    text = [
        "## Convolutions, network by network",
        "",
        "The largest call sets a peak; the last column is how far off the rule is there. The "
        "constants of the rule were chosen on these networks; `convolutions.rs` has others.",
        "",
        "| network | calls | hidden in all, MiB | off in all, MiB | largest call, MiB | off |",
        "|---|---|---|---|---|---|",
    ]
    for name, found in rows.items():
        hidden = sum(peak - made for _, peak, made in found) / MIB
        off = sum(abs(guess - peak) for guess, peak, _ in found) / MIB
        guess, largest, _ = max(found, key=lambda row: row[1])
        share = f"{100 * (guess - largest) / largest:+.1f} %"
        text.append(
            f"| {name} | {len(found)} | {hidden:.0f} | {off:.0f} | {largest / MIB:.0f} | {share} |"
        )
    return [*text, ""]


def results_table(calls: list[dict[str, Any]]) -> list[str]:
    """Results that are not those of fake tensors."""
    text = ["## Results that differ from those of fake tensors", ""]
    text += [
        "| operator | result | fake: strides, bytes | torch: strides, bytes |",
        "|---|---|---|---|",
    ]
    seen = set()
    for call in calls:
        for at, (fake, real) in enumerate(zip(*call.get("fake", ([], [])), strict=False)):
            if fake == real or (call["op"], at) in seen:
                continue
            seen.add((call["op"], at))
            sides = [f"{row[0]} {row[1]} {row[2]}, {row[3]:,}" for row in (fake, real)]
            text.append(f"| `{call['op']}` | {at} | {sides[0]} | {sides[1]} |")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="families whose names have this in them")
    parser.add_argument("--no-write", action="store_true", help="only print the table")
    options = parser.parse_args()
    with floodmark.phantom("h200"):
        import torch
    assert torch.cuda.is_available()
    warm()
    calls = chosen(watched(options.only))
    text = table(calls, asked(calls))
    if options.no_write:
        print(text)
        return
    FIXTURE.parent.mkdir(exist_ok=True)
    slim = [{key: call[key] for key in KEYS} for call in calls]
    FIXTURE.write_text("".join(json.dumps(call, separators=(",", ":")) + "\n" for call in slim))
    (HERE / "results" / "fake-hidden.md").write_text(text)


#: What the tests of the rules need of a call.
KEYS = ("op", "args", "results", "peak", "made", "plain", "kept")

if __name__ == "__main__":
    main()
