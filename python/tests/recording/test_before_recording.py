"""Blocks on the CPU that were live before the recording, also those that only autograd retains."""

from __future__ import annotations

import threading

import torch

from floodmark_compat import pytorch_mem_tracer

SIZE = 64 << 10


def before(recorded) -> dict[int, int]:
    """How many blocks of each size were live before the recording."""
    rows = recorded.trace.lifetimes("cpu")
    sizes = [row["bytes"] for row in rows if row["phase"] is None]
    return {size: sizes.count(size) for size in set(sizes)}


def chain(count: int) -> torch.Tensor:
    """A tensor whose graph retains `count` tensors that no Python object is left of."""
    hidden = torch.ones(SIZE // 4, requires_grad=True)
    for _ in range(count):
        hidden = hidden.tanh()
    return hidden


def test_outputs_that_autograd_saved_are_found(record):
    with record() as without:
        pass
    hidden = chain(10)
    with record() as recorded:
        hidden.sum().backward(retain_graph=True)
    # The leaf, and the outputs of ten operators.
    assert before(recorded)[SIZE] - before(without).get(SIZE, 0) == 11
    assert not any("before" in loss for loss in recorded.trace.end("cpu").by_line().losses)


def test_what_is_freed_meanwhile_is_freed_in_the_trace(record):
    hidden = chain(10)
    with record() as recorded:
        del hidden
    freed = [row for row in recorded.trace.lifetimes("cpu") if row["bytes"] == SIZE]
    assert sum(row["freed_seconds"] is not None for row in freed) == 11


def test_other_threads_hide_nothing(record):
    """They allocate and free during the search; what they retain throughout is found as well."""
    stop = threading.Event()
    started = threading.Barrier(3)

    def work(size: int) -> None:
        kept = [torch.zeros(size, dtype=torch.uint8) for _ in range(5)]
        started.wait()
        while not stop.is_set():
            torch.zeros(1000, dtype=torch.uint8)
        del kept

    hidden = chain(10)
    threads = [threading.Thread(target=work, args=(size,)) for size in (4321, 8765)]
    for thread in threads:
        thread.start()
    started.wait()
    with record() as without:
        pass
    with record() as recorded:
        pass
    stop.set()
    for thread in threads:
        thread.join()
    for one in (without, recorded):
        found = before(one)
        assert (found[4321], found[8765]) == (5, 5)
        assert found[SIZE] == before(without)[SIZE] >= 11
        assert one.trace.end("cpu").by_line().losses == []
    del hidden


def test_destroyed_storages_and_other_allocators_do_not_count(record):
    import numpy

    size = 77_777
    for _ in range(200):
        torch.empty(size, dtype=torch.uint8)
    borrowed = torch.from_numpy(numpy.zeros(size, dtype=numpy.uint8))
    kept = torch.empty(size, dtype=torch.uint8)
    with record() as recorded:
        pass
    assert before(recorded)[size] == 1
    assert borrowed.numel() == kept.numel()


def test_an_empty_section_prints_zeros(capsys, programs):
    script = """
        from floodmark_compat import pytorch_mem_tracer as mem_tracer

        mem_tracer.start_tracing()
        mem_tracer.stop_tracing()
        mem_tracer.report_stats()
    """
    done = programs.run(script)
    expected = [
        "Max mem: 0.000 B",
        "Total mem allocated: 0.000 B",
        "Mem, Cumulative Mem, Median, Count, Location",
    ]
    assert done.stdout.splitlines() == expected
    # With tensors from before, the section is not empty: they are there.
    hidden = chain(10)
    pytorch_mem_tracer.start_tracing()
    pytorch_mem_tracer.stop_tracing()
    pytorch_mem_tracer.report_stats("cpu")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[3].endswith("untraced")
    del hidden


def test_blocks_from_before_are_not_counted_as_allocations(record):
    kept = [torch.ones(SIZE // 4) for _ in range(3)]
    with record() as recorded:
        more = [torch.ones(SIZE // 4) for _ in range(2)]
    assert before(recorded)[SIZE] >= len(kept)
    assert recorded.trace.summary()["allocations"] == len(more)
    assert ", 2 allocations," in str(recorded.trace)
