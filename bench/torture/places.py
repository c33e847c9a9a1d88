"""Part `places`: full disks, missing descriptors, files that must not be written.

In every case the program must go on unharmed, and what the trace does not have must be said: in
the trace, or, where there is none, in one message.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torture.children import Child, Numbers
from torture.outcome import Outcome

_ROUNDS = 60_000


@dataclass(frozen=True)
class Case:
    """A fault of the file system or the descriptors of a trace."""

    name: str
    path: str = "x.flood"
    #: In the folder, before the program.
    prepare: Callable[[Path], None] = lambda folder: None
    #: In the program, before it records.
    before: Callable[[], None] = lambda: None
    #: In the program, in the middle of the recording.
    during: Callable[[], None] = lambda: None
    #: Where the trace is at the end, where that is another place.
    ends_at: str | None = None
    #: After the program.
    after: Callable[[Path], None] = lambda folder: None


def _program(case: Case, made: Numbers) -> None:
    """Allocate, and check that arithmetic is right: floodmark must not have changed anything."""
    import torch

    import floodmark

    case.before()
    recorder = floodmark.trace(case.path, devices="cpu")
    total = 0
    with recorder:
        for number in range(_ROUNDS):
            total += torch.full((64,), number, dtype=torch.int64).numel()
            made[0] += 1
            if number == _ROUNDS // 2:
                case.during()
    assert total == _ROUNDS * 64
    made[1] = 1


def _limit(kind: int, value: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(kind, (value, value))


def _use_up_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    try:
        while True:
            os.open("/dev/null", os.O_RDONLY)
    except OSError:
        pass


def _become_unprivileged() -> None:
    other = pwd.getpwnam("nobody")
    os.setgroups([])
    os.setgid(other.pw_gid)
    os.setuid(other.pw_uid)


def _close_and_open() -> None:
    """Close descriptors that the recorder may use, and write a file of the program."""
    os.closerange(3, 200)
    for number in range(20):
        with open(f"mine-{number}", "w") as file:
            file.write("mine" * 100)
    # Left open, under low numbers, while the recording goes on.
    os.open("held", os.O_CREAT | os.O_RDWR)


def _check_own_files(folder: Path) -> None:
    for path in folder.glob("mine-*"):
        assert path.read_text() == "mine" * 100, f"{path.name} was changed"
    assert (folder / "held").read_bytes() == b"", "foreign bytes in the program's own file"


def _cut_chunks() -> None:
    for chunk in Path("x.flood.journal").glob("*.chunk"):
        os.truncate(chunk, 4096)


def _rename() -> None:
    Path("x.flood").rename("y.flood")


def _remove_journal() -> None:
    shutil.rmtree("x.flood.journal", ignore_errors=True)


def _fork_and_wait() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _mount(folder: Path, size: str = "2m") -> None:
    (folder / "disk").mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder / "disk")]
    subprocess.run(mount, check=True, capture_output=True)


def _mount_more(folder: Path) -> None:
    _mount(folder, "24m")


def _fill_disk() -> None:
    with contextlib.suppress(OSError), open("disk/full", "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def _unmount(folder: Path) -> None:
    subprocess.run(["umount", "-l", str(folder / "disk")], check=False, capture_output=True)


def _own_folder(folder: Path) -> None:
    (folder / "closed").mkdir(mode=0o755)


def _closed_file(folder: Path) -> None:
    folder.chmod(0o777)
    (folder / "x.flood").write_bytes(b"")
    (folder / "x.flood").chmod(0o644)


CASES = (
    Case("nothing is wrong"),
    Case("the disk is full", "disk/x.flood", prepare=_mount, after=_unmount),
    Case("the disk fills", "disk/x.flood", _mount_more, during=_fill_disk, after=_unmount),
    Case("files may have 512 KiB", before=_limit(resource.RLIMIT_FSIZE, 1 << 19)),
    Case("files may have 64 KiB", before=_limit(resource.RLIMIT_FSIZE, 1 << 16)),
    Case("files may have no byte", before=_limit(resource.RLIMIT_FSIZE, 0)),
    Case("a device takes no byte", prepare=lambda f: (f / "x.flood").symlink_to("/dev/full")),
    Case("no descriptor is left", before=_use_up_descriptors),
    Case("descriptors are closed", during=_close_and_open, after=_check_own_files),
    Case("stdout and stderr are closed", before=lambda: os.closerange(1, 3)),
    Case("the folder is missing", "missing/x.flood"),
    Case("the path is a folder", "here", prepare=lambda f: (f / "here").mkdir()),
    Case("the path is in /proc", "/proc/x.flood"),
    Case("the folder belongs to another", "closed/x.flood", _own_folder, _become_unprivileged),
    Case("the file belongs to another", "x.flood", _closed_file, _become_unprivileged),
    Case("the trace is removed", during=Path("x.flood").unlink),
    Case("the trace is renamed", during=_rename, ends_at="y.flood"),
    Case("the trace is emptied", during=lambda: os.truncate("x.flood", 0)),
    Case("the journal is removed", during=_remove_journal),
    Case("the journal's chunks are cut", during=_cut_chunks),
    Case("a fork meanwhile", during=_fork_and_wait),
)


def _judge(case: Case, folder: Path, made: Numbers, said: str, outcome: Outcome) -> None:
    """Whether everything that was made is in the trace, or the loss is stated."""
    import floodmark

    try:
        trace = floodmark.Trace.open(folder / (case.ends_at or case.path))
    except OSError as error:
        # No trace: one message must have said so, unless there is no stderr.
        outcome.count("cases without a trace, and with a message")
        if "floodmark:" not in said and case.name != "stdout and stderr are closed":
            outcome.fault("silent losses", f"{case.name}: no trace and no message ({error})")
        return
    except floodmark.FloodmarkError:
        outcome.count("cases whose trace is refused with an error")
        return
    recorded = trace.summary()["allocations"]
    if recorded >= made[0]:
        outcome.count("cases with a whole trace")
    elif trace.summary()["losses"]:
        outcome.count("cases with a part of a trace that says what is missing")
    else:
        outcome.fault("silent losses", f"{case.name}: {made[0]} allocations, {recorded} recorded")


def main() -> None:
    """`python -m torture.places FOLDER`: the outcome as JSON."""
    import torch

    import floodmark  # noqa: F401

    torch.set_num_threads(1)
    base = Path(sys.argv[1])
    outcome = Outcome("places", faults={"programs harmed": 0, "silent losses": 0})
    for number, case in enumerate(CASES):
        folder = base / f"place-{number}"
        folder.mkdir(parents=True)
        try:
            case.prepare(folder)
        except (OSError, subprocess.CalledProcessError) as error:
            outcome.notes.append(f"{case.name}: could not be made here ({error})")
            continue
        made = Numbers(2)
        status, said = Child(lambda: _program(case, made), folder).wait()  # noqa: B023
        outcome.count("cases")
        if status != 0 or made[1] != 1:
            outcome.fault("programs harmed", f"{case.name}: {status} {said[-500:]}")
        else:
            _judge(case, folder, made, said, outcome)
        try:
            case.after(folder)
        except AssertionError as error:
            outcome.fault("programs harmed", f"{case.name}: {error}")
    print(json.dumps(vars(outcome)))


if __name__ == "__main__":
    main()
