"""A forked child does not write its parent's trace; with `follow_fork` it has its own."""

from __future__ import annotations

import json
from collections import Counter

from support.flood_file import FloodFile

import floodmark

#: Python 3.12 and later warn of a fork beside any thread, and the recorder's writer is one. torch
#: warns of more workers than there are cores.
QUIET = {
    "PYTHONWARNINGS": "ignore:This process:DeprecationWarning,ignore:This DataLoader:UserWarning"
}


def sizes(path):
    return [event.bytes for event in FloodFile(path).allocations()]


def test_a_child_leaves_its_parents_trace_alone(programs):
    """By `os.fork`, ending in every way; by `multiprocessing`; as workers of a `DataLoader`."""
    done = programs.run(
        """
        import multiprocessing, os, sys
        import torch, floodmark
        from torch.utils.data import DataLoader, Dataset

        class Numbers(Dataset):
            def __len__(self):
                return 8

            def __getitem__(self, at):
                torch.empty(30_000, dtype=torch.uint8)
                return torch.full((10,), at)

        def work():
            torch.empty(20_001, dtype=torch.uint8)

        with floodmark.trace("a.flood"):
            mine = torch.empty(10_000, dtype=torch.uint8)
            for ending in ("exit", "return", "trace"):
                child = os.fork()
                if child == 0:
                    assert not floodmark.is_recording()
                    torch.empty(20_000, dtype=torch.uint8)
                    floodmark.stop()
                    if ending == "exit":
                        os._exit(0)
                    if ending == "trace":
                        with floodmark.trace("child.flood") as recorder:
                            kept = torch.empty(40_000, dtype=torch.uint8)
                        assert not recorder.failure, recorder.failure
                        os._exit(0)
                    sys.exit(0)
                assert os.waitpid(child, 0)[1] == 0, ending
            process = multiprocessing.get_context("fork").Process(target=work)
            process.start()
            process.join()
            assert process.exitcode == 0
            workers = {"num_workers": 2, "multiprocessing_context": "fork"}
            for batch in DataLoader(Numbers(), batch_size=2, **workers):
                pass
            after = torch.empty(10_001, dtype=torch.uint8)
        print("done")
        """,
        env=QUIET,
    )
    # Nothing was said, neither here nor in a child.
    assert done.stderr == ""
    assert done.stdout == "done\n"
    seen = sizes(programs.folder / "a.flood")
    assert seen.count(10_000) == seen.count(10_001) == 1
    assert not {20_000, 20_001, 30_000, 40_000} & set(seen)
    assert sizes(programs.folder / "child.flood").count(40_000) == 1
    traces = sorted(path.name for path in programs.folder.glob("*flood*"))
    assert traces == ["a.flood", "child.flood"]


def test_a_child_that_is_followed_has_a_file_of_its_own(programs):
    done = programs.run(
        """
        import json, multiprocessing, os
        import torch, floodmark

        def work(size):
            kept = torch.empty(size, dtype=torch.uint8)

        with floodmark.trace("a.flood", follow_fork=True):
            mine = torch.empty(10_000, dtype=torch.uint8)
            context = multiprocessing.get_context("fork")
            children = [context.Process(target=work, args=(20_000 + n,)) for n in range(2)]
            for child in children:
                child.start()
            for child in children:
                child.join()
                assert child.exitcode == 0
            killed = os.fork()
            if killed == 0:
                torch.empty(20_009, dtype=torch.uint8)
                os._exit(0)
            os.waitpid(killed, 0)
        print(json.dumps([[child.pid for child in children], killed]))
        """,
        env=QUIET,
    )
    children, killed = json.loads(done.stdout)
    assert done.stderr == ""
    assert 10_000 in sizes(programs.folder / "a.flood")
    assert not {20_000, 20_001, 20_009} & set(sizes(programs.folder / "a.flood"))
    for number, child in enumerate(children):
        own = programs.folder / f"a.{child}.flood"
        assert sizes(own).count(20_000 + number) == 1
        assert floodmark.Trace.open(own).header["pid"] == child
        assert not own.with_name(own.name + ".journal").exists()
    # The one that left without a word left a journal: its trace is read all the same.
    rows = floodmark.Trace.open(programs.folder / f"a.{killed}.flood").peak("cpu").by_tensor()
    assert 20_009 in [row["bytes"] for row in rows]


def test_forking_while_threads_allocate_does_not_hang(programs):
    done = programs.run(
        """
        import os, threading, time
        import torch, floodmark

        stop = threading.Event()

        def work():
            while not stop.is_set():
                torch.empty(1000)

        with floodmark.trace("a.flood", follow_fork=True):
            threads = [threading.Thread(target=work) for _ in range(3)]
            for thread in threads:
                thread.start()
            for number in range(6):
                child = os.fork()
                if child == 0:
                    torch.empty(5000)
                    os._exit(7)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
            stop.set()
            for thread in threads:
                thread.join()
        print("done")
        """
    )
    assert done.stdout == "done\n"


def test_children_that_share_memory_until_they_execute_leave_the_recording_whole(programs):
    """`vfork` and `posix_spawn`: the child runs in its parent's memory, beside its threads."""
    done = programs.run(
        """
        import os, subprocess, sys, threading
        import torch, floodmark

        command = ["/bin/sh", "-c", "exit 3"]
        ways = {
            "vfork": lambda: subprocess.run(command).returncode,
            "subprocess, spawned": lambda: subprocess.run(command, close_fds=False).returncode,
            "posix_spawn": lambda: os.waitstatus_to_exitcode(
                os.waitpid(os.posix_spawn(command[0], command, os.environ), 0)[1]
            ),
            "system": lambda: os.waitstatus_to_exitcode(os.system("exit 3")),
            "nothing to execute": lambda: missing(),
        }

        def missing():
            try:
                subprocess.run(["/no/such/program"])
            except FileNotFoundError:
                return 3

        counts = [0, 0, 0]
        stop = threading.Event()

        def work(number):
            while not stop.is_set():
                torch.empty(5_001 + number, dtype=torch.uint8)
                counts[number] += 1

        with floodmark.trace("a.flood") as recorder:
            threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
            for thread in threads:
                thread.start()
            for number, (name, way) in enumerate(ways.items()):
                for _ in range(4):
                    torch.empty(10_000 + number, dtype=torch.uint8)
                    assert way() == 3, name
            stop.set()
            for thread in threads:
                thread.join()
            after = torch.empty(20_000, dtype=torch.uint8)
        assert not recorder.failure, recorder.failure
        print(*counts)
        """
    )
    assert done.stderr == ""
    path = programs.folder / "a.flood"
    seen = Counter(sizes(path))
    assert [seen[5_001 + number] for number in range(3)] == [int(n) for n in done.stdout.split()]
    assert [seen[10_000 + number] for number in range(5)] == [4] * 5
    assert seen[20_000] == 1
    trace = floodmark.Trace.open(path)
    assert trace.summary()["losses"] == []
    assert trace.summary()["outcome"] == "finished"
    assert [found.name for found in programs.folder.glob("*flood*")] == ["a.flood"]
