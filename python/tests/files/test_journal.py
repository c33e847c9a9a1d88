"""The journal: damage is counted, no program dies of it, no child writes into it."""

from __future__ import annotations

import queue
import re
import shutil
import threading

import pytest
import torch
from support.flood_file import FloodFile

import floodmark

#: Leaves a journal with all of its records behind.
KILLED = """
    import os, signal
    import torch, floodmark

    floodmark.start("a.flood")
    kept = [torch.empty(10_000 + number, dtype=torch.uint8) for number in range(300)]
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The folder that a killed program left."""
    from support.programs import Programs

    # The writer thread may have appended the records to the trace before the program is killed:
    # it runs beside it. What is wanted here is a program whose records are in the journal alone.
    for _ in range(50):
        programs = Programs(tmp_path_factory.mktemp("killed"))
        done = programs.python(programs.write(KILLED))
        assert done.returncode == -9, done.stderr
        alone = tmp_path_factory.mktemp("alone") / "a.flood"
        shutil.copy(programs.folder / "a.flood", alone)
        if floodmark.Trace.open(alone).summary()["events"] == 0:
            return programs.folder
    raise AssertionError("the writer appended the records of every program before it was killed")


@pytest.fixture
def left_behind(killed, tmp_path):
    """A copy of it that may be damaged: the trace, and its journal."""
    shutil.copytree(killed, tmp_path / "copy")
    return tmp_path / "copy" / "a.flood", tmp_path / "copy" / "a.flood.journal"


def lost_events(path):
    """How many events a report says are missing from the journal."""
    losses = floodmark.Trace.open(path).summary()["losses"]
    found = [re.match(r"(\d+) events are missing: the journal", loss) for loss in losses]
    return sum(int(match[1]) for match in found if match)


def sizes(path):
    allocations = floodmark.Trace.open(path).end("cpu").by_tensor(top=None).rows
    return [row["bytes"] for row in allocations if 10_000 <= row["bytes"] < 10_300]


def used_chunk(journal):
    """The file with most in it. Another one may have been made ready for other threads."""

    def used_bytes(path):
        data = path.read_bytes()
        return len(data) - data.count(0)

    return max(journal.glob("*.chunk"), key=used_bytes)


def test_an_undamaged_journal_lacks_nothing(left_behind):
    path, _ = left_behind
    assert lost_events(path) == 0
    assert len(sizes(path)) == 300


def test_damaged_records_are_counted_as_lost_events(left_behind):
    path, journal = left_behind
    events = floodmark.Trace.open(path).summary()["events"]
    chunk = used_chunk(journal)
    bytes_ = bytearray(chunk.read_bytes())
    used = len(bytes_.rstrip(b"\0"))
    bytes_[used - 2000 : used - 1000] = b"\xff" * 1000
    chunk.write_bytes(bytes_)
    lost = lost_events(path)
    assert 15 <= lost <= 25
    assert floodmark.Trace.open(path).summary()["events"] == events - lost


def test_a_journal_that_was_cut_says_how_many_events_it_lacks(left_behind):
    path, journal = left_behind
    events = floodmark.Trace.open(path).summary()["events"]
    chunk = used_chunk(journal)
    bytes_ = chunk.read_bytes()
    chunk.write_bytes(bytes_[: len(bytes_.rstrip(b"\0")) - 4800])
    assert lost_events(path) in (100, 101)
    assert floodmark.Trace.open(path).summary()["events"] == events - lost_events(path)


def test_a_missing_segment_is_as_many_lost_events_as_it_had(left_behind):
    path, journal = left_behind
    used_chunk(journal).unlink()
    # Definitions of functions and stacks are records too.
    assert lost_events(path) >= 300


def test_a_journal_of_another_version_is_an_error(left_behind):
    path, journal = left_behind
    ledger = bytearray((journal / "ledger").read_bytes())
    ledger[7] = ord("7")
    (journal / "ledger").write_bytes(ledger)
    with pytest.raises(floodmark.FloodmarkError, match="version 7"):
        floodmark.Trace.open(path)


def test_a_truncated_journal_ends_the_recording_and_not_the_program(programs):
    done = programs.run(
        """
        import faulthandler, os, signal
        from pathlib import Path
        import torch, floodmark

        def recorded(name, files, handler=None):
            with floodmark.trace(name) as recorder:
                if handler is not None:
                    handler.enable()
                for number in range(30_000):
                    torch.empty(1000, dtype=torch.uint8)
                    if number == 10_000:
                        for path in Path(f"{name}.journal").glob(files):
                            os.truncate(path, 0)
            print(recorder.failure)

        recorded("a.flood", "*.chunk")
        recorded("b.flood", "ledger")
        recorded("c.flood", "no file")
        # Another SIGBUS is not ours: it ends the process, as it would without us.
        with floodmark.trace("d.flood"):
            child = os.fork()
            if child == 0:
                os.kill(os.getpid(), signal.SIGBUS)
                os._exit(0)
            print(os.WTERMSIG(os.waitpid(child, 0)[1]))
        # A handler that comes after ours calls it by `raise`, which hides the address of the fault.
        for name, files in (("e.flood", "*.chunk"), ("f.flood", "ledger")):
            recorded(name, files, faulthandler)
            faulthandler.disable()
        with floodmark.trace("g.flood"):
            faulthandler.enable()
            child = os.fork()
            if child == 0:
                os.kill(os.getpid(), signal.SIGBUS)
                os._exit(0)
            print(os.WTERMSIG(os.waitpid(child, 0)[1]))
        """,
        env={"PYTHONWARNINGS": "ignore:This process:DeprecationWarning"},
    )
    truncated = "the journal was truncated by another program"
    expected = [truncated, truncated, "", "7", truncated, truncated, "7"]
    assert done.stdout.splitlines() == expected
    # The records that were in the truncated chunks are lost events.
    losses = floodmark.Trace.open(programs.folder / "a.flood").summary()["losses"]
    assert [loss for loss in losses if truncated in loss], losses


def test_a_child_made_past_the_fork_handlers_leaves_its_parents_journal_alone(programs):
    done = programs.run(
        """
        import ctypes, os
        import torch, floodmark

        libc = ctypes.CDLL(None)
        makers = [lambda: libc.syscall(56, 17, 0, 0, 0, 0)]
        if hasattr(libc, "_Fork"):
            makers.append(libc._Fork)
        with floodmark.trace("a.flood") as recorder:
            for make in makers:
                before = torch.empty(10_000, dtype=torch.uint8)
                child = make()
                if child == 0:
                    for number in range(20_000):
                        torch.empty(20_000, dtype=torch.uint8)
                    os._exit(1 if floodmark.is_recording() else 0)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
                after = torch.empty(10_001, dtype=torch.uint8)
        print(len(makers), repr(recorder.failure))
        """
    )
    count, failure = done.stdout.split()
    assert failure == "''"
    trace = floodmark.Trace.open(programs.folder / "a.flood")
    assert trace.summary()["losses"] == []
    seen = [event.bytes for event in FloodFile(programs.folder / "a.flood").allocations()]
    assert seen.count(10_000) == seen.count(10_001) == int(count)
    assert 20_000 not in seen


def test_64_threads_lose_no_event_and_no_free_comes_before_its_allocation(record):
    threads, each = 64, 150
    handed = queue.SimpleQueue()

    def work(number):
        for turn in range(each):
            handed.put(torch.empty(100_000 + number * each + turn, dtype=torch.uint8))
            # Another thread's, as a rule.
            handed.get()

    with record() as recorded:
        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    wanted = range(100_000, 100_000 + threads * each)
    seen = [event.bytes for event in recorded.file.allocations()]
    assert sorted(size for size in seen if size in wanted) == list(wanted)
    rows = recorded.trace.end("cpu").by_tensor(top=None).rows
    assert [row["bytes"] for row in rows if row["bytes"] in wanted] == []
    assert recorded.trace.summary()["losses"] == []


def test_threads_that_follow_each_other_have_numbers_of_their_own(record):
    with record() as recorded:
        for number in range(200):
            size = 200_000 + number
            worker = threading.Thread(target=torch.empty, args=(size,))
            worker.start()
            worker.join()
    wanted = {4 * (200_000 + number) for number in range(200)}
    made = [event for event in recorded.file.allocations() if event.bytes in wanted]
    assert len(made) == len({event.thread for event in made}) == 200


def count_in(losses, pattern):
    (match,) = [match for loss in losses if (match := re.match(pattern, loss))]
    return int(match[1])


def test_names_beyond_the_last_number_are_counted(record):
    beyond = 300
    with record() as recorded:
        for number in range(65_535 + beyond):
            with floodmark.phase(f"phase {number}"):
                pass
        with floodmark.phase("one more"):
            torch.empty(12_345, dtype=torch.uint8)
    losses = recorded.trace.summary()["losses"]
    # A phase begins and ends; in the last one a block comes and goes.
    assert count_in(losses, r"(\d+) events miss the name") == 2 * (beyond + 1) + 2


def test_allocations_without_a_stack_are_counted_one_by_one(record):
    source = "def leaf_{0}(torch):\n    return torch.empty(5_000, dtype=torch.uint8)\n"
    kept = []
    with record(max_memory="16MiB") as recorded:
        for number in range(4000):
            names = {}
            exec(compile(source.format(number), "<made>", "exec"), names)
            # Twice from the same place: the second time the thread remembers the first.
            kept.append([names[f"leaf_{number}"](torch) for _ in range(2)])
    rows = recorded.trace.end("cpu").by_line(top=None).rows
    complete = sum(row["count"] for row in rows if row["file"] == "<made>")
    losses = recorded.trace.summary()["losses"]
    assert 0 < complete < 8000
    assert count_in(losses, r"(\d+) allocations have no stack") == 8000 - complete
    del kept
