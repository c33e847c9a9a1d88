"""Whose files are whose: ours never go into the program's, and nothing that is live is replaced.

Marks are events too, so most programs here need no torch.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from support.flood_file import INITIAL_BLOCK, FloodFile
from support.programs import PATIENCE

import floodmark
from floodmark import _core

#: Records marks until its standard input asks it to end.
WAITS = """
import sys, floodmark
floodmark.start(sys.argv[1])
for number in range(100):
    floodmark.mark(f"mark {number}")
print("ready", flush=True)
sys.stdin.readline()
recorder = floodmark.stop()
print("ended", repr(recorder.failure), flush=True)
"""


def events(path):
    """How many events a trace has, without the blocks of other tests that were live before it."""
    return sum(event.kind != INITIAL_BLOCK for event in FloodFile(path).events)


def losses(path):
    return floodmark.Trace.open(path).summary()["losses"]


@pytest.fixture
def live(programs):
    """A program that records into `live.flood`, until `end` is called."""
    path = programs.folder / "live.flood"
    script = programs.write(WAITS, "waits.py")
    process = subprocess.Popen(
        [sys.executable, str(script), str(path)],
        cwd=programs.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    process.path = path
    process.end = lambda: process.communicate("end\n", timeout=PATIENCE)[0]
    yield process
    if process.poll() is None:
        process.kill()
        process.communicate()


def test_the_programs_own_files_get_none_of_our_bytes(programs):
    """Descriptors that are closed in a loop, and ours taken by another file."""
    done = programs.run(
        """
        import json, os, time
        import floodmark

        def own_descriptor(name):
            links = {n: os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
                     if os.path.exists(f"/proc/self/fd/{n}")}
            return [int(n) for n, link in links.items() if link.endswith(name)]

        def many_marks(until):
            number = 0
            while not until(number):
                floodmark.mark(f"mark {number % 1000} " + "x" * 200)
                number += 1

        found = {}

        # 1: a program that closes "all" descriptors.
        floodmark.start("closed.flood")
        floodmark.mark("before")
        os.closerange(3, 200)
        users = open("users.txt", "w+")
        found["number of the user's file"] = users.fileno()
        size = os.path.getsize("closed.flood")
        many_marks(lambda _: os.path.getsize("closed.flood") > size)
        found["first failure"] = floodmark.stop().failure
        found["user's file"] = os.path.getsize("users.txt")

        # 2: a program that takes our number.
        floodmark.start("taken.flood")
        floodmark.mark("before")
        found["ours"] = own_descriptor("taken.flood")
        (number,) = found["ours"]
        os.dup2(users.fileno(), number)
        many_marks(lambda _: not floodmark.is_recording())
        found["second failure"] = floodmark.stop().failure
        found["user's file after"] = os.path.getsize("users.txt")
        os.fstat(number)  # It is the program's: we have not closed it.
        os.close(number)

        # 3: a program that closes our number and is killed by itself afterwards.
        floodmark.start("lost.flood")
        floodmark.mark("before")
        (number,) = own_descriptor("lost.flood")
        os.close(number)
        many_marks(lambda _: not floodmark.is_recording())
        print(json.dumps(found), flush=True)
        os._exit(0)
        """
    )
    found = json.loads(done.stdout)
    assert found["number of the user's file"] == 3
    assert found["first failure"] == ""
    assert found["user's file"] == found["user's file after"] == 0
    assert found["ours"][0] > 200
    assert "opened another file under its number" in found["second failure"]
    assert losses(programs.folder / "closed.flood") == []
    for name, reason in (("taken", "opened another file"), ("lost", "closed the recorder's desc")):
        (said,) = losses(programs.folder / f"{name}.flood")
        assert said.startswith("recording stopped at ")
        assert reason in said
        assert "; the peak after that is unknown" in said
    # Where the name is still there, the end and its reason are in the trace itself.
    assert not (programs.folder / "taken.flood.journal").exists()
    assert (programs.folder / "lost.flood.journal").is_dir()


def test_a_live_recording_is_never_replaced(programs, live, capsys, tmp_path):
    assert _core.is_being_recorded(live.path)
    for force in (False, True):
        with floodmark.trace(live.path, force=force) as recorder:
            pass
        assert f"process {live.pid} is recording into it" in recorder.failure
    assert "hint: wait until that program ends" in capsys.readouterr().err
    programs.write("print('ran')")
    done = programs.floodmark("run", "--force", "-o", live.path.name, "program.py")
    assert done.returncode == 1
    assert f"process {live.pid} is recording" in done.stderr
    assert "ran" not in done.stdout
    (said,) = losses(live.path)
    assert said.startswith("the program is still recording: ")
    # Also where its file is gone.
    live.path.unlink()
    with floodmark.trace(live.path, force=True) as recorder:
        pass
    assert f"process {live.pid} is recording into it" in recorder.failure
    live.path.symlink_to("elsewhere")
    assert "removed" in live.end()
    assert not _core.is_being_recorded(live.path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "live.flood",
        "program.py",
        "waits.py",
    ]


def test_a_recording_that_ended_is_complete_beside_refused_ones(live):
    with floodmark.trace(live.path, force=True) as recorder:
        pass
    assert recorder.failure
    assert live.end() == "ended ''\n"
    assert losses(live.path) == []
    assert floodmark.Trace.open(live.path).summary()["events"] == 100
    before = live.path.open("rb")
    with floodmark.trace(live.path) as recorder:
        floodmark.mark("another")
    assert recorder.failure == ""
    assert events(live.path) == 1
    # Those who have the old one open still have it: it lost its name only.
    assert os.fstat(before.fileno()).st_nlink == 0
    assert before.read(4) == b"FLOD"
    before.close()


def test_what_a_killed_program_left_is_replaced_only_when_asked(live):
    live.kill()
    live.communicate()
    (said,) = losses(live.path)
    assert said.startswith("the program ended without ending the recording: it was killed, ")
    with floodmark.trace(live.path) as recorder:
        pass
    assert "it has an unfinished recording" in recorder.failure
    assert floodmark.Trace.open(live.path).summary()["events"] == 100
    with floodmark.trace(live.path, force=True) as recorder:
        floodmark.mark("another")
    assert recorder.failure == ""
    assert losses(live.path) == []
    assert events(live.path) == 1
    assert not live.path.with_name("live.flood.journal").exists()


def test_what_is_not_a_trace_is_replaced_only_when_asked(tmp_path, capsys):
    path = tmp_path / "notes.flood"
    path.write_text("my own words")
    target = tmp_path / "target.flood"
    target.write_text("more of my own words")
    link = tmp_path / "link.flood"
    link.symlink_to(target)
    for taken, reason in ((path, "is not a floodmark trace"), (link, "is a symbolic link")):
        with floodmark.trace(taken) as recorder:
            pass
        assert reason in recorder.failure
        assert "force=True" in capsys.readouterr().err
        with floodmark.trace(taken, force=True) as recorder:
            floodmark.mark("now")
        assert recorder.failure == ""
        assert events(taken) == 1
    assert target.read_text() == "more of my own words"
    assert not link.is_symlink()
    names = sorted(entry.name for entry in tmp_path.iterdir())
    assert names == ["link.flood", "notes.flood", "target.flood"]


def test_folders_devices_and_pipes_are_never_replaced(tmp_path):
    (tmp_path / "folder.flood").mkdir()
    os.mkfifo(tmp_path / "pipe.flood")
    cases = {"folder.flood": "it is a folder", "pipe.flood": "it is a device, a pipe or a socket"}
    for force in (False, True):
        for name, reason in cases.items():
            with floodmark.trace(tmp_path / name, force=force) as recorder:
                pass
            assert reason in recorder.failure
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(cases)
    # An empty file, as `mktemp` makes it, has nothing to lose.
    (tmp_path / "empty.flood").touch()
    with floodmark.trace(tmp_path / "empty.flood") as recorder:
        pass
    assert recorder.failure == ""


def test_a_journal_that_holds_something_else_is_left_alone(tmp_path):
    diary = tmp_path / "a.flood.journal" / "diary.txt"
    diary.parent.mkdir()
    diary.write_text("my own words")
    for force in (False, True):
        with floodmark.trace(tmp_path / "a.flood", force=force) as recorder:
            pass
        assert recorder.failure
    assert diary.read_text() == "my own words"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.flood.journal"]


def test_a_forked_child_does_not_keep_the_lock(programs):
    done = programs.run(
        """
        import os
        import floodmark
        from floodmark import _core

        floodmark.start("a.flood")
        floodmark.mark("before")
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(write_end)
            os.read(read_end, 1)  # Lives until its parent says so.
            os._exit(0)
        print(_core.is_being_recorded("a.flood"))
        floodmark.stop()
        print(_core.is_being_recorded("a.flood"), floodmark.start("a.flood").failure == "")
        floodmark.stop()
        os.close(write_end)
        os.waitpid(child, 0)
        """
    )
    assert done.stdout == "True\nFalse True\n", done.stderr


def test_a_limit_that_comes_later_stops_the_recording_and_says_when(programs):
    """The program sets a limit on file sizes, goes on, and is killed much later."""
    done = programs.python(
        programs.write(
            """
            import os, resource, signal
            import floodmark

            floodmark.start("limit.flood")
            floodmark.mark("before")
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
            number = 0
            while floodmark.is_recording():
                floodmark.mark(f"mark {number} {os.urandom(200).hex()}")
                number += 1
            print("went on", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
            """
        )
    )
    assert (done.stdout, done.returncode) == ("went on\n", -signal.SIGKILL), done.stderr
    (said,) = losses(programs.folder / "limit.flood")
    assert said.startswith("recording stopped at ")
    assert "File too large" in said
    assert said.endswith("; the peak after that is unknown: the program continued")
    trace = floodmark.Trace.open(programs.folder / "limit.flood")
    assert trace.summary()["outcome"] == "stopped_early"
    assert trace.summary()["events"] > 1


def test_a_signal_interrupts_the_program_and_not_the_recorder(programs):
    """A handler on our thread would leave the program asleep."""
    done = programs.run(
        """
        import os, signal, time
        import floodmark
        floodmark.start("a.flood")
        tasks = os.listdir("/proc/self/task")
        names = {open(f"/proc/self/task/{task}/comm").read(): task for task in tasks}
        numbers = (
            signal.SIGALRM, signal.SIGTERM, signal.SIGXFSZ, signal.SIGBUS, signal.SIGSEGV
        )

        def blocked():
            lines = open(f"/proc/self/task/{names['floodmark-write' + chr(10)]}/status")
            mask = int(next(line for line in lines if line.startswith("SigBlk")).split()[1], 16)
            return [bool(mask >> (number - 1) & 1) for number in numbers]

        # While a thread starts, all signals are blocked.
        end = time.monotonic() + 600
        while all(blocked()) and time.monotonic() < end:
            time.sleep(0.001)
        print(blocked())
        floodmark.stop()
        """
    )
    assert done.stdout == "[True, True, True, False, False]\n", done.stderr


def test_the_trace_and_its_journal_have_the_same_permissions(programs):
    done = programs.run(
        """
        import json, os
        from pathlib import Path
        import floodmark

        found = {}
        for umask in (0o000, 0o002, 0o022, 0o027, 0o077):
            os.umask(umask)
            path = Path(f"{umask:03o}.flood")
            floodmark.start(path)
            floodmark.mark("a mark")
            journal = Path(f"{path}.journal")
            modes = {file.name: file.stat().st_mode & 0o777 for file in journal.iterdir()}
            found[umask] = path.stat().st_mode & 0o777, journal.stat().st_mode & 0o777, modes
            floodmark.stop()
            assert path.stat().st_mode & 0o777 == found[umask][0]
        print(json.dumps(found))
        """
    )
    found = json.loads(done.stdout)
    assert len(found) == 5
    for umask, (trace, folder, files) in found.items():
        assert trace == 0o666 & ~int(umask), oct(trace)
        assert folder == 0o777 & ~int(umask), oct(folder)
        assert {"state", "ledger"} < set(files)
        assert set(files.values()) == {trace}, files
