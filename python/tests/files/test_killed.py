"""Whatever kills the program: every event that was recorded is in the trace."""

from __future__ import annotations

import fcntl
import os
import random
import select
import signal
import subprocess
import sys

import pytest
from support.programs import PATIENCE

import floodmark

#: From `linux/fcntl.h`; Python 3.10 has it too, but not on every build.
F_SETPIPE_SZ = 1031

#: Says a number after each allocation, and keeps the last ones.
PROGRAM = """
import os, sys, threading
import torch, floodmark

def work(tell, base):
    number = 0
    kept = []
    while True:
        kept.append(torch.empty(base + number, dtype=torch.uint8))
        del kept[:-10]
        os.write(tell, number.to_bytes(4, "little"))
        number += 1

floodmark.start("killed.flood")
print("ready", flush=True)
other = threading.Thread(target=work, args=(int(sys.argv[2]), 5_000_000), daemon=True)
other.start()
work(int(sys.argv[1]), 1_000_000)
"""


def last_written(read_end):
    written = b""
    while part := os.read(read_end, 1 << 16):
        written += part
    # Four bytes at a time are written whole.
    return int.from_bytes(written[-4:], "little")


def killed_after(programs, seconds):
    """Runs the program and kills it; the last numbers that its two threads wrote."""
    pipes = [os.pipe(), os.pipe()]
    for _, write_end in pipes:
        # So large that the program rarely waits for us.
        fcntl.fcntl(write_end, F_SETPIPE_SZ, 1 << 20)
    script = programs.write(PROGRAM)
    command = [sys.executable, str(script), *(str(write_end) for _, write_end in pipes)]
    process = subprocess.Popen(
        command,
        cwd=programs.folder,
        stdout=subprocess.PIPE,
        pass_fds=[write_end for _, write_end in pipes],
    )
    for _, write_end in pipes:
        os.close(write_end)
    assert process.stdout.readline() == b"ready\n"
    # Both threads have begun when each has written a number.
    for read_end, _ in pipes:
        assert select.select([read_end], [], [], PATIENCE)[0]
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    written = [last_written(read_end) for read_end, _ in pipes]
    for read_end, _ in pipes:
        os.close(read_end)
    return written


@pytest.mark.parametrize("run", range(8))
def test_a_killed_program_loses_no_event(programs, run):
    random.seed(run)
    written = killed_after(programs, random.uniform(0.0, 1.5))
    path = programs.folder / "killed.flood"
    assert path.with_name("killed.flood.journal").is_dir()
    trace = floodmark.Trace.open(path)
    assert trace.summary()["outcome"] == "unfinished"
    rows = trace.end("cpu").by_tensor(top=None).rows
    held = {row["bytes"] for row in rows}
    for base, last in zip((1_000_000, 5_000_000), written, strict=True):
        # The last ten that were reported are live, or the program was one further on.
        for number in range(max(0, last - 8), last + 1):
            assert base + number in held, (base, last, sorted(held))
    assert trace.summary()["events"] >= sum(written)
    assert not [row for row in rows if row["count"] != 1]
