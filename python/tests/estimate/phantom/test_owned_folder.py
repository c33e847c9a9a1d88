"""Temporary folders of the simulated GPU: they live as long as their owner."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support.namespaces import IN_OTHER_NAMESPACE, needs_namespaces
from support.phantoms import needs_cuda_build

from floodmark.estimate.device import owned_folder

OWNER = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from floodmark.estimate.device import owned_folder
print(owned_folder.make("owned-"), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def start_owner(folder: Path, program: str = OWNER) -> tuple[subprocess.Popen[str], Path]:
    owner = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    return owner, Path(owner.stdout.readline().strip())


def test_a_live_folder_stays_whatever_its_name_says(temporary: Path) -> None:
    # A process of another PID namespace has a number that does not exist here, or another's.
    owner, made = start_owner(temporary)
    owned_folder.remove_left("owned-")
    assert made.is_dir()
    assert owner.stdin is not None
    owner.stdin.close()
    assert owner.wait() == 0
    assert not made.exists()


@needs_namespaces
def test_a_process_of_another_pid_namespace_leaves_a_live_folder(temporary: Path) -> None:
    owner, made = start_owner(temporary)
    remove = f"""
import os, tempfile
tempfile.tempdir = {str(temporary)!r}
from floodmark.estimate.device import owned_folder
owned_folder.remove_left("owned-")
print(os.getpid(), os.path.exists("/proc/{owner.pid}"))
"""
    done = subprocess.run(
        [*IN_OTHER_NAMESPACE, sys.executable, "-c", remove], capture_output=True, text=True
    )
    assert done.stdout == "1 False\n", done.stderr
    assert made.is_dir()
    owner.kill()
    owner.wait()


def test_the_folder_of_a_killed_process_is_removed_by_the_next(temporary: Path) -> None:
    owner, made = start_owner(temporary)
    (made / "file").write_text("left")
    owner.kill()
    owner.wait()
    assert made.is_dir()
    owned_folder.remove_left("owned-")
    assert not made.exists()


def test_a_forked_process_keeps_the_folder(temporary: Path) -> None:
    program = """
import os, sys, tempfile
tempfile.tempdir = sys.argv[1]
from floodmark.estimate.device import owned_folder
folder = owned_folder.make("owned-")
child = os.fork()
if child:
    print(folder, flush=True)
else:
    sys.stdin.read()
    os._exit(0)
"""
    done, made = start_owner(temporary, program)
    assert done.stdout is not None
    assert done.stdin is not None
    assert done.wait() == 0
    owned_folder.remove_left("owned-")
    assert made.is_dir()
    done.stdin.close()
    # The pipe ends when the forked process has ended.
    assert done.stdout.read() == ""
    owned_folder.remove_left("owned-")
    assert not made.exists()


def test_other_files_are_left_alone(temporary: Path) -> None:
    file, target = temporary / "owned-file", temporary / "target"
    file.write_text("mine")
    target.mkdir()
    (temporary / "owned-link").symlink_to(target)
    # Somebody's work, under a name like ours; and one whose maker has not yet marked it.
    (temporary / "owned-results").mkdir()
    (temporary / "owned-results" / "kept.txt").write_text("mine")
    (temporary / "owned-new").mkdir()
    owned_folder.remove_left("owned-")
    assert (temporary / "owned-results" / "kept.txt").read_text() == "mine"
    assert (temporary / "owned-new").is_dir()
    assert file.read_text() == "mine"
    assert target.is_dir()


def test_the_lock_survives_a_program_that_closes_descriptors(temporary: Path) -> None:
    closing = OWNER.replace("print(", "made = ").replace(", flush=True)", "")
    program = closing.replace(
        "sys.stdin.read()",
        "import os; os.closerange(3, 200); print(made, flush=True); sys.stdin.read()",
    )
    owner, made = start_owner(temporary, program)
    owned_folder.remove_left("owned-")
    assert made.is_dir()
    assert owner.stdin is not None
    owner.stdin.close()
    assert owner.wait() == 0
    assert not made.exists()


@needs_cuda_build
def test_a_phantom_leaves_the_folder_of_a_process_that_it_does_not_see(temporary: Path) -> None:
    # As it looks from another PID namespace: no process has the number in the name.
    named = OWNER.replace("owned-", "floodmark-phantom-999999999-")
    owner, made = start_owner(temporary, named)
    program = "import floodmark\nwith floodmark.phantom('h200'): pass"
    environment = os.environ | {"TMPDIR": str(temporary)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    assert made.is_dir()
    assert [found.name for found in temporary.iterdir()] == [made.name]
    owner.kill()
    owner.wait()
