"""The checks of `gpu_check.py`, one function each; every one runs in a process of its own.

A check compares what floodmark says of a program with what torch itself says of it, to the byte. It
calls `expect` for every fact; what it returns is shown beside its verdict.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import floodmark

BENCH = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BENCH))

import gpt2  # noqa: E402

DEVICE = "cuda:0"
#: The pause around a reading, which is found in the trace by its time.
QUIET_SECONDS = 0.04

facts: list[tuple[bool, str]] = []


def expect(is_so: bool, what: str) -> None:
    """Note a fact; a false one fails the check and does not stop it."""
    facts.append((bool(is_so), what))


def expect_equal(ours: object, theirs: object, what: str) -> None:
    expect(ours == theirs, what if ours == theirs else f"{what}: {ours} here, {theirs} in torch")


@contextmanager
def recording(**options: Any) -> Iterator[floodmark.Recorder]:
    with tempfile.TemporaryDirectory(prefix="floodmark-gpu-") as folder:
        recorder = floodmark.trace(Path(folder) / "check.flood", **options)
        yield recorder
        recorder.stop()


class Readings:
    """torch's statistics at some times, to compare with the trace afterwards."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []

    def take(self, name: str) -> None:
        torch.cuda.synchronize()
        time.sleep(QUIET_SECONDS)
        stats = torch.cuda.memory_stats()
        unix = time.time()
        floodmark.mark(name)
        time.sleep(QUIET_SECONDS)
        self.taken.append(
            {
                "name": name,
                "unix": unix,
                "allocated": stats["allocated_bytes.all.current"],
                "reserved": stats["reserved_bytes.all.current"],
                "requested": stats.get("requested_bytes.all.current"),
                "active": stats["active_bytes.all.current"],
            }
        )

    def compare(self, trace: floodmark.Trace, requested: bool = True) -> None:
        began = trace.header["started_unix_micros"] / 1e6
        equal: dict[str, int] = {}
        wrong: dict[str, str] = {}
        what = ["allocated", "reserved", *(["requested"] if requested else [])]
        for taken in self.taken:
            report = trace.at(taken["unix"] - began, DEVICE).by_phase().to_dict()
            if "active" in report:
                what = [*what, "active"] if "active" not in what else what
            for key in what:
                if report[key] == taken[key]:
                    equal[key] = equal.get(key, 0) + 1
                else:
                    wrong.setdefault(
                        key, f"{report[key]} here, {taken[key]} in torch, {taken['name']}"
                    )
        for key in what:
            text = f"{key} bytes equal memory_stats() at {equal.get(key, 0)} of {len(self.taken)}"
            expect(key not in wrong, text + (f" ({wrong[key]})" if key in wrong else ""))
        if "active" not in what:
            facts.append((True, "active bytes are not in the report: not compared"))


def compare_peaks(trace: floodmark.Trace, allocated: int, reserved: int | None = None) -> None:
    about = next(one for one in trace.summary()["devices"] if one["device"] == DEVICE)
    expect_equal(about["peak"], allocated, f"peak equals max_memory_allocated() ({allocated})")
    if reserved is not None:
        text = f"reserved peak equals max_memory_reserved() ({reserved})"
        expect_equal(about["reserved_peak"], reserved, text)
    losses = trace.summary()["losses"]
    expect(not losses, f"losses: {losses or 'none'}")


def tiny(bf16: bool = False) -> gpt2.Training:
    return gpt2.Training(gpt2.TINY, batch=8, length=256, device=DEVICE, bf16=bf16)


def totals() -> None:
    """A GPT from its first byte on: totals at four moments of each step, and the peak."""
    readings = Readings()
    ends = []
    with recording() as recorder:
        recorder.start()
        training = tiny(bf16=True)

        def after(name: str) -> None:
            readings.take(f"step {len(ends)}, after {name}")
            if name == "optimizer":
                ends.append(readings.taken[-1]["allocated"])

        for _ in range(5):
            training.step(after)
        peaks = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
        recorder.stop()
        readings.compare(recorder.trace)
        compare_peaks(recorder.trace, *peaks)
        rows = [row for row in recorder.report(by="step", device=DEVICE) if row["step"] is not None]
        expect_equal([row["end"] for row in rows[:5]], ends, "`--by step` ends as each step did")
    expect(True, f"allocator settings: {os.environ.get('PYTORCH_CUDA_ALLOC_CONF') or 'default'}")


def busy_steps() -> None:
    """Steps without pauses: end and peak."""
    with recording() as recorder:
        recorder.start()
        training = tiny()
        for _ in range(40):
            training.step()
        torch.cuda.synchronize()
        stats = torch.cuda.memory_stats()
        recorder.stop()
        end = recorder.end(DEVICE).by_phase().to_dict()
        for key in ("allocated", "reserved", "requested"):
            expect_equal(end[key], stats[f"{key}_bytes.all.current"], f"{key} bytes at the end")
        compare_peaks(recorder.trace, stats["allocated_bytes.all.peak"])
        expect(True, f"{recorder.trace.summary()['events']} events")


def other_backend(word: str) -> None:
    """An allocator that does not report everything: the program runs, and the trace has a note."""
    with recording() as recorder:
        recorder.start()
        training = tiny()
        for _ in range(3):
            training.step()
        torch.cuda.synchronize()
        loss = training.forward().item()
        recorder.stop()
        expect(loss > 0, "the program runs to its end")
        said = recorder.trace.header["not_recorded"]
        expect(any(word in one for one in said), f"said in the trace: {said}")
        try:
            report = recorder.peak(DEVICE).by_line(top=3)
            expect(True, f"report: {str(report).splitlines()[0]}; losses: {report.losses}")
        except floodmark.FloodmarkError as error:
            expect(True, f"report refuses: {error}")


def malloc_async() -> None:
    """`backend:cudaMallocAsync`."""
    other_backend("cudaMallocAsync")


def pluggable() -> None:
    """A pluggable allocator, written in Python."""
    maps = Path("/proc/self/maps").read_text()
    found = re.search(r"/\S*libcudart[^\s/]*\.so[^\s/]*", maps)
    assert found, "libcudart is not loaded"
    cudart = ctypes.CDLL(found[0])
    cudart.cudaMalloc.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t]
    cudart.cudaFree.argtypes = [ctypes.c_void_p]
    size_t, pointer, integer = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int

    @ctypes.CFUNCTYPE(pointer, size_t, integer, pointer)
    def allocate(size: int, _device: int, _stream: int) -> int | None:
        block = ctypes.c_void_p()
        cudart.cudaMalloc(ctypes.byref(block), size)
        return block.value

    @ctypes.CFUNCTYPE(None, pointer, size_t, integer, pointer)
    def free(block: int, _size: int, _device: int, _stream: int) -> None:
        cudart.cudaFree(block)

    addresses = [ctypes.cast(one, pointer).value for one in (allocate, free)]
    allocator = torch.cuda.memory._CUDAAllocator(torch._C._cuda_customAllocator(*addresses))
    torch.cuda.memory.change_current_allocator(allocator)
    other_backend("pluggable")
    sys.stdout.flush()


def cuda_graphs() -> None:
    """Warm up, capture, replay: nothing moves in a replay, and totals stay equal."""
    readings = Readings()
    with recording() as recorder:
        recorder.start()
        model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4))).to(DEVICE)
        x = torch.randn(512, 1024, device=DEVICE)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                model(x).sum().backward()
        torch.cuda.current_stream().wait_stream(side)
        model.zero_grad(set_to_none=True)
        readings.take("before capture")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = model(x).sum()
            loss.backward()
        readings.take("after capture")
        for number in range(3):
            graph.replay()
            readings.take(f"after replay {number}")
        expect(bool(torch.isfinite(loss)), "the replayed graph gives a loss")
        peaks = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
        del graph, loss
        readings.take("after the graph is gone")
        recorder.stop()
        readings.compare(recorder.trace)
        compare_peaks(recorder.trace, *peaks)


def streams() -> None:
    """Frees of blocks that other streams use are pending until those are done."""
    readings = Readings()
    with recording() as recorder:
        recorder.start()
        others = [torch.cuda.Stream() for _ in range(3)]
        weight = torch.randn(4096, 4096, device=DEVICE)
        deferred = 0
        for number in range(6):
            blocks = [torch.randn(4096, 4096, device=DEVICE) for _ in others]
            torch.cuda.synchronize()
            for stream, block in zip(others, blocks, strict=True):
                with torch.cuda.stream(stream):
                    torch.cuda._sleep(40_000_000)
                    torch.mm(block, weight)
                block.record_stream(stream)
            del blocks, block
            stats = torch.cuda.memory_stats()
            allocated = stats["allocated_bytes.all.current"]
            deferred += stats["active_bytes.all.current"] > allocated
            torch.empty(1, device=DEVICE)
            readings.take(f"round {number}")
        torch.cuda.empty_cache()
        readings.take("after empty_cache")
        peaks = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
        recorder.stop()
        expect(deferred > 0, f"frees were deferred in {deferred} of 6 rounds")
        readings.compare(recorder.trace)
        compare_peaks(recorder.trace, *peaks)


def out_of_memory() -> None:
    """The exception reaches the user; the trace has the failed request and what was live."""
    torch.cuda.set_per_process_memory_fraction(0.02)
    request = 512 << 20
    caught: list[BaseException] = []
    with recording() as recorder:
        recorder.start()
        held = []
        try:
            while True:
                held.append(torch.empty(request, dtype=torch.uint8, device=DEVICE))
        except torch.OutOfMemoryError as error:
            caught.append(error)
        allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        count = len(held)
        held.clear()
        again = torch.ones(1024, device=DEVICE).sum().item()
        recorder.stop()
        expect(len(caught) == 1 and "out of memory" in str(caught[0]).lower(), "the exception came")
        expect(again == 1024, "the program goes on after it")
        report = recorder.oom(DEVICE).by_line().to_dict()
        failed = report["at"]["request"]
        expect_equal(failed["bytes"], request, f"the failed request has {request} bytes")
        expect("gpu_checks.py" in str(failed["location"]), f"and a line: {failed['location']}")
        expect_equal(report["allocated"], allocated, f"{allocated} bytes were held at it")
        expect_equal(report["reserved"], reserved, f"{reserved} bytes were reserved")
        top = report["rows"][0]
        expect(top["count"] == count, f"{count} blocks of {top['location']} held them")
        expect(not report["losses"], f"losses: {report['losses'] or 'none'}")
        end = recorder.end(DEVICE).by_phase()
        expect_equal(end.allocated, torch.cuda.memory_allocated(), "the trace goes on to the end")


def before_recording() -> None:
    """Blocks from before the recording have a row of their own."""
    training = tiny()
    training.step()
    torch.cuda.synchronize()
    alive = torch.cuda.memory_stats()
    with recording() as recorder:
        recorder.start()
        torch.cuda.reset_peak_memory_stats()
        with torch.no_grad():
            training.forward()
        torch.cuda.synchronize()
        peaks = torch.cuda.max_memory_allocated(), None
        recorder.stop()
        rows = recorder.peak(DEVICE).by_line(top=None)
        before = sum(row["bytes"] for row in rows if row["location"] == "before recording")
        there = alive["allocated_bytes.all.current"]
        expect_equal(before, there, f"before recording: {there} bytes")
        end = recorder.end(DEVICE).by_phase()
        expect_equal(end.reserved, torch.cuda.memory_reserved(), "reserved bytes at the end")
        compare_peaks(recorder.trace, *peaks)


def lines_and_modules() -> None:
    """Lines for the bytes at the peak; forward modules for what the backward thread allocates."""
    with recording() as recorder:
        recorder.start()
        training = tiny()
        training.step()
        began = time.time()
        training.step()
        training.step()
        torch.cuda.synchronize()
        ended = time.time()
        recorder.stop()
        report = recorder.peak(DEVICE).by_line(top=None)
        with_line = sum(row["bytes"] for row in report if row["file"])
        share = 100 * with_line / report.allocated
        expect(share >= 95, f"{share:.2f} % of the bytes at the peak have a line")
        origin = recorder.trace.header["started_unix_micros"] / 1e6
        seen = without = placeless = 0
        examples: set[str] = set()
        moments = 400
        for number in range(moments):
            at = began - origin + (ended - began) * number / moments
            for row in recorder.at(at, DEVICE).by_stack(top=None):
                if not row["frames"] and row["location"] != "before recording":
                    placeless += row["count"]
                if not row["backward"]:
                    continue
                seen += row["count"]
                if row["module"] is None:
                    without += row["count"]
                    examples.add(row["location"])
        expect(seen > 0, f"{seen} live backward allocations at {moments} moments of two steps")
        expect(
            without == 0, f"{without} of them have no forward module {sorted(examples)[:3] or ''}"
        )
        expect(placeless == 0, f"{placeless} live allocations at these moments have no stack")
        phases = {row["location"]: row["bytes"] for row in recorder.peak(DEVICE).by_phase()}
        expect(True, f"phases at the peak: {phases}")


def workspaces() -> None:
    """cuBLAS's workspace has its name."""
    with recording() as recorder:
        recorder.start()
        training = tiny()
        training.step()
        torch.cuda.synchronize()
        recorder.stop()
        rows = list(recorder.end(DEVICE).by_category())
        found = [row for row in rows if row["category"] == "workspace"]
        held = found[0]["bytes"] if found else 0
        expect(held > 0, f"workspace: {held} bytes {found[0]['largest'] if found else ''}")
        expect(True, f"categories: { {row['category']: row['bytes'] for row in rows} }")


def start_and_stop() -> None:
    """Two hundred recordings while another thread allocates."""
    is_done = threading.Event()
    rounds = [0]
    failures: list[BaseException] = []

    def allocate() -> None:
        try:
            while not is_done.is_set():
                blocks = [torch.empty(1 << (10 + n % 12), device=DEVICE) for n in range(50)]
                del blocks
                rounds[0] += 1
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=allocate)
    thread.start()
    times, events, losses = [], 0, set()
    with tempfile.TemporaryDirectory(prefix="floodmark-gpu-") as folder:
        for number in range(200):
            path = Path(folder) / f"{number}.flood"
            before = time.perf_counter()
            with floodmark.trace(path) as recorder:
                torch.empty(1 << 20, device=DEVICE)
            times.append(time.perf_counter() - before)
            if recorder.failure:
                failures.append(RuntimeError(recorder.failure))
            summary = recorder.trace.summary()
            events += summary["events"]
            losses.update(summary["losses"])
            path.unlink()
    is_done.set()
    thread.join()
    expect(not failures, f"200 recordings, {events} events, failures: {failures[:2] or 'none'}")
    expect(rounds[0] > 0, f"the other thread made {rounds[0] * 50} blocks meanwhile")
    known = {"CPU blocks from before are not known: other threads were there"}
    expect(losses <= known, f"losses: {sorted(losses) or 'none'}")
    expect(True, f"median start and stop: {sorted(times)[100] * 1e3:.1f} ms")


def windows() -> None:
    """Recordings inside, beside and after each other: each has torch's own peak of its time."""
    with recording() as outer:
        outer.start()
        training = tiny()
        for number in range(4):
            path = outer.path.with_name(f"inner-{number}.flood") if number % 2 else None
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            with floodmark.trace(path) as inner, floodmark.trace(stacks=False) as second:
                training.step()
                torch.cuda.synchronize()
                now = inner.trace.end(DEVICE).by_phase().allocated
                name = "with a file" if path else "in memory"
                text = f"window {number} ({name}), read while it is open"
                expect_equal(now, torch.cuda.memory_allocated(), text)
            peak = torch.cuda.max_memory_allocated()
            for one in (inner, second):
                about = next(d for d in one.trace.summary()["devices"] if d["device"] == DEVICE)
                expect_equal(about["peak"], peak, f"peak of window {number}: {peak}")
                losses = one.trace.summary()["losses"]
                expect(not losses, f"losses: {losses or 'none'}")
        outer.stop()
        end = outer.end(DEVICE).by_phase()
        expect_equal(end.allocated, torch.cuda.memory_allocated(), "allocated at the end of all")
        expect_equal(end.reserved, torch.cuda.memory_reserved(), "reserved at the end of all")


def saved_for_backward() -> None:
    """What autograd saves, and when, against `saved_tensors_hooks` over the same step."""
    training = tiny()
    training.step()
    packed: set[int] = set()

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type == "cuda":
            packed.add(tensor.untyped_storage().data_ptr())
        return tensor

    sizes: dict[int, int] = {}
    with recording() as recorder:
        recorder.start()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            loss = training.forward()
        blocks = (
            block
            for segment in torch.cuda.memory_snapshot()
            for block in segment["blocks"]
            if block["state"] == "active_allocated"
        )
        sizes = {block["address"]: block["size"] for block in blocks}
        theirs = sorted(sizes[address] for address in packed)
        forward_end = time.time()
        loss.backward()
        torch.cuda.synchronize()
        backward_end = time.time()
        recorder.stop()
        began = recorder.trace.header["started_unix_micros"] / 1e6
        saved = [
            one for one in recorder.trace.lifetimes(DEVICE) if one["saved_seconds"] is not None
        ]
        ours = sorted(one["bytes"] for one in saved)
        text = f"{len(theirs)} storages of {sum(theirs)} bytes are saved, as torch's hooks say"
        expect_equal(ours, theirs, text)
        in_forward = sum(one["saved_seconds"] <= forward_end - began for one in saved)
        expect_equal(in_forward, len(saved), "all of them before the forward pass ended")
        read = sum(
            one["last_use_seconds"] is not None
            and forward_end - began <= one["last_use_seconds"] <= backward_end - began
            for one in saved
        )
        expect_equal(read, len(saved), "all of them last used in the backward pass")
        losses = recorder.trace.summary()["losses"]
        expect(not losses, f"losses: {losses or 'none'}")


def _five_tools(folder: Path, words: list[str], way: str) -> dict[str, list[str]]:
    output = folder / f"{'-'.join([way, *words[:1]])}.json"
    script = BENCH.parent / "fixtures" / "compat" / "all_five.py"
    command = [sys.executable, *words, str(script), DEVICE, str(output), way]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if not output.exists():
        expect(False, f"{way} {words}: exit status {ran.returncode}: {ran.stderr[-600:]}")
        return {}
    # Times, and names of files that are times, differ.
    text = re.sub(r"(\d+\.\d%)  +[\d.]+(  \S+)\\n", r"\1\2\\n", output.read_text())
    text = re.sub(r"memory_csv_data/[\d-]+\.csv", "time.csv", text)
    return {name: said.split() for name, said in json.loads(text)[way].items()}


def five_tools() -> None:
    """The tables of `floodmark_compat` beside any other recording are those of a plain run."""
    with tempfile.TemporaryDirectory(prefix="floodmark-gpu-") as name:
        folder = Path(name)
        plain = _five_tools(folder, [], "plain")
        again = _five_tools(folder, [], "plain")
        expect(plain == again, "two plain runs print the same")
        for title, words, way in (
            ("inside a recording", [], "traced"),
            ("beside another object", [], "beside"),
            ("under floodmark run", ["-m", "floodmark", "run", "-o", "a.flood"], "plain"),
            ("on a simulated H200", ["-m", "floodmark", "estimate", "--gpu", "h200"], "plain"),
        ):
            found = _five_tools(folder, words, way)
            for tool, theirs in plain.items():
                ours = found.get(tool, [])
                differ = [(a, b) for a, b in zip(ours, theirs, strict=False) if a != b]
                is_same = not differ and len(ours) == len(theirs)
                text = f"{tool} {title}: {len(theirs)} words"
                expect(is_same, text if is_same else f"{text}, differ: {differ[:8]}")


def stays_asleep() -> None:
    """Recording does not initialise CUDA by itself; recording begun before it sees it begin."""
    with recording() as recorder:
        recorder.start()
        torch.ones(1000)
        expect(not torch.cuda.is_initialized(), "CUDA is not initialised by us")
        torch.ones(1000, device=DEVICE)
        recorder.stop()
        peak = recorder.peak(DEVICE).by_line()
        expect_equal(peak.allocated, 4096, "the first block is in the trace")


def whole_script() -> None:
    """`floodmark run` on an unchanged training script."""
    with tempfile.TemporaryDirectory(prefix="floodmark-gpu-") as folder:
        path = Path(folder) / "train.flood"
        script = BENCH.parent / "examples" / "train_gpt.py"
        words = ["run", "-o", str(path), str(script), "--device", "cuda", "--steps", "12"]
        ran = subprocess.run(
            [sys.executable, "-m", "floodmark", *words], capture_output=True, text=True
        )
        expect(ran.returncode == 0, f"exit status {ran.returncode} {ran.stderr[-300:]}")
        trace = floodmark.Trace.open(path)
        report = trace.peak(DEVICE).by_line(top=None)
        share = 100 * sum(row["bytes"] for row in report if row["file"]) / report.allocated
        expect(share >= 95, f"{share:.2f} % of {report.allocated} bytes at the peak have a line")
        expect(True, str(report).splitlines()[0])


def run(check: Callable[[], None]) -> int:
    """Run one check and print its facts as JSON; 1 when one of them is not so."""
    try:
        check()
    finally:
        print("FACTS " + json.dumps(facts), flush=True)
    return 0 if facts and all(is_so for is_so, _ in facts) else 1
