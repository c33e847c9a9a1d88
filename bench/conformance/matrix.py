"""What the matrices of scripts share: an environment with their libraries, and isolated runs.

Sees: requirements and command lines. Knows nothing of what a script computes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import machine  # noqa: E402

SCRIPTS = ROOT / "bench" / "programs" / "phantom"


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """The options that all matrices have."""
    parser = machine.arguments(doc)
    parser.add_argument("--floodmark", type=Path, required=True, help="folder of the package")
    parser.add_argument("--python", default=sys.executable, help="creates the environment")
    parser.add_argument("--environment", type=Path, help="Python of an existing environment")
    parser.add_argument("--only", help="rows whose script has this in its name")
    return parser


def environment(
    name: str,
    requirements: Path,
    python: str,
    finish: Callable[[Path, list[str]], object] = lambda _python, _pip: None,
) -> Path:
    """The Python of a virtual environment with `requirements`, created anew when they change.

    `finish` installs what pip's requirements cannot express.
    """
    folder = ROOT / ".venvs" / name
    done = folder / "requirements.txt"
    found = folder / "bin" / "python"
    if not (done.exists() and done.read_text() == requirements.read_text()):
        subprocess.run([python, "-m", "venv", str(folder)], check=True)
        pip = [str(found), "-m", "pip", "install", "--quiet", "--progress-bar", "off"]
        subprocess.run([*pip, "-r", str(requirements)], check=True)
        finish(found, pip)
        done.write_text(requirements.read_text())
    return found


def scripts_environment(python: str) -> Path:
    """The environment of the scripts in `bench/programs/phantom`."""
    return environment("phantom-matrix", SCRIPTS / "requirements.txt", python)


def without_network() -> list[str]:
    """A command prefix that removes the network; empty where the system has none."""
    command = ["unshare", "--map-root-user", "--net"]
    try:
        works = subprocess.run([*command, "true"], capture_output=True).returncode == 0
    except OSError:
        works = False
    return command if works else []


class Finished(NamedTuple):
    """How a run ended; a run over its time limit has status -1."""

    status: int
    output: str
    errors: str


def run(command: list[str], floodmark: Path, limit_seconds: float) -> Finished:
    """Run a command offline, in an empty folder and with few environment variables.

    `{folder}` in a word of the command stands for that folder.
    """
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    offline = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    with tempfile.TemporaryDirectory() as folder:
        env = kept | offline | {"PYTHONPATH": str(floodmark.resolve()), "TMPDIR": folder}
        try:
            done = subprocess.run(
                [word.replace("{folder}", folder) for word in command],
                cwd=folder,
                env=env,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=limit_seconds,
            )
        except subprocess.TimeoutExpired:
            return Finished(-1, "", f"not done after {limit_seconds:g} s")
    return Finished(done.returncode, done.stdout, done.stderr)


def gib(size: int) -> str:
    """Bytes as GiB."""
    return f"{size / (1 << 30):.3f}"


def torch_of(python: Path) -> str:
    """The version of torch in an environment."""
    code = "from importlib.metadata import version; print(version('torch'))"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()
