"""The program in a shell: two ways to start it, completions, man pages."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest
from support.programs import Programs

SCRIPT = Path(sysconfig.get_path("scripts")) / "floodmark"


@pytest.fixture
def programs(tmp_path) -> Programs:
    return Programs(tmp_path)


def of_shell(programs: Programs, *words: str) -> subprocess.CompletedProcess[str]:
    options = {"capture_output": True, "text": True, "cwd": programs.folder}
    return subprocess.run([str(word) for word in words], env=programs.environment, **options)


@pytest.mark.parametrize(
    "words",
    [[], ["--help"], ["--version"], ["report"], ["report", "missing.flood"], ["rport"], ["gpus"]],
    ids=" ".join,
)
def test_both_ways_to_start_it_do_the_same(programs, words):
    as_module = programs.floodmark(*words)
    as_script = of_shell(programs, SCRIPT, *words)
    assert as_script.stdout == as_module.stdout
    assert as_script.stderr == as_module.stderr
    assert as_script.returncode == as_module.returncode
    assert "__main__" not in as_module.stdout + as_module.stderr
    if words in ([], ["--help"]):
        assert "Usage: floodmark " in as_module.stdout + as_module.stderr


def test_bash_completes_commands_and_options(programs):
    script = programs.folder / "completions.bash"
    script.write_text(programs.floodmark("completions", "bash").stdout)
    ask = """
    set -u
    source "$1"
    COMP_WORDS=(floodmark repo) COMP_CWORD=1 COMPREPLY=()
    _floodmark floodmark repo floodmark
    echo "${COMPREPLY[@]}"
    COMP_WORDS=(floodmark report --torch) COMP_CWORD=2 COMPREPLY=()
    _floodmark floodmark --torch report
    echo "${COMPREPLY[@]}"
    """
    done = of_shell(programs, "bash", "-c", ask, "bash", script)
    assert done.stderr == ""
    assert done.stdout.split() == ["report", "--torch-frames"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completions_name_every_command(programs, shell):
    done = programs.floodmark("completions", shell)
    assert done.returncode == 0, done.stderr
    for command in ("run", "estimate", "report", "doctor"):
        assert command in done.stdout
    if shutil.which(shell) is not None:
        script = programs.folder / shell
        script.write_text(done.stdout)
        assert of_shell(programs, shell, "-n", script).stderr == ""


def test_every_command_has_a_man_page(programs):
    folder = programs.folder / "share" / "man1"
    done = programs.floodmark("man", str(folder))
    assert done.returncode == 0, done.stderr
    pages = sorted(folder.iterdir())
    assert done.stdout == f"Wrote {len(pages)} man pages to `{folder}`\n"
    names = {page.name for page in pages}
    assert {"floodmark.1", "floodmark-run.1", "floodmark-report.1", "floodmark-doctor.1"} <= names
    report = (folder / "floodmark-report.1").read_text()
    assert ".TH FLOODMARK-REPORT 1" in report
    assert "Show what filled the memory of a device" in report
    if shutil.which("groff") is not None:
        done = of_shell(programs, "groff", "-man", "-Tutf8", "-ww", *pages)
        assert done.stderr == ""
