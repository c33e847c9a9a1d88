"""What is installed, and where traces can be written. Starts no process, imports no torch."""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from floodmark import _core, torch_private
from floodmark.doctor.check import Check

#: Libraries that floodmark works with where they are installed.
LIBRARIES = (
    "accelerate",
    "lightning",
    "megatron-core",
    "pandas",
    "polars",
    "pyarrow",
    "pytorch-lightning",
    "tensorboard",
    "transformer_engine",
    "transformers",
    "triton",
)
#: Less free space than this gets a warning: a long recording can fill it.
LITTLE_DISK_BYTES = 1 << 30


def version_of(package: str) -> str | None:
    """The version of an installed package, without importing it."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def python() -> Check:
    """The interpreter and the system."""
    libc = " ".join(platform.libc_ver())
    system = f"{platform.system()} {platform.release()} {platform.machine()}, {libc}"
    name = f"{platform.python_implementation()} {platform.python_version()}"
    return Check("Python", "ok", f"{name}, {sys.executable}; {system}")


def floodmark() -> Check:
    """The version and the folder of this package."""
    return Check("floodmark", "ok", f"{_core.__version__}, {Path(__file__).parent.parent}")


def torch() -> Check:
    """The torch that a program would import."""
    found = version_of("torch")
    if found is None:
        hint = "`pip install torch`, or run floodmark with the Python that has it"
        return Check("torch", "failed", "not installed", hint)
    return Check("torch", "ok", found)


def driver() -> Check:
    """The CUDA driver."""
    found = torch_private.driver_version()
    if not found:
        return Check("CUDA driver", "note", "not found: estimates need none")
    return Check("CUDA driver", "ok", f"supports CUDA {found}")


def folder(name: str, path: Path) -> Check:
    """Whether a trace can be written to a folder: files, locks, space."""
    try:
        free = shutil.disk_usage(path).free
        with tempfile.NamedTemporaryFile(dir=path) as file:
            file.write(b"x")
            file.flush()
            is_locked = _can_lock(file.fileno())
    except OSError as error:
        hint = "write traces to another folder with `-o`, or set TMPDIR"
        return Check(name, "failed", f"{path}: {error.strerror or error}", hint)
    result = f"{path}: writable, {free / 2**30:.1f} GiB free"
    if not is_locked:
        hint = "the file system has no `flock`: a live recording can be replaced by another one"
        return Check(name, "note", f"{result}, files cannot be locked", hint)
    if free < LITTLE_DISK_BYTES:
        return Check(name, "note", result, "a recording ends early when the disk is full")
    return Check(name, "ok", f"{result}, files can be locked")


def _can_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def folders() -> list[Check]:
    """The default folder of traces, and that of temporary files."""
    return [
        folder("Current folder", Path.cwd()),
        folder("Temporary folder", Path(tempfile.gettempdir())),
    ]


def libraries() -> Check:
    """Versions of the libraries that floodmark works with."""
    found = [(name, version_of(name)) for name in LIBRARIES]
    text = ", ".join(f"{name} {version}" for name, version in found if version is not None)
    return Check("Libraries", "ok" if text else "note", text or "none that floodmark works with")


def settings() -> Check:
    """Variables that change what torch and floodmark do."""
    kept = ("FLOODMARK_", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "CUDA_VISIBLE_DEVICES")
    found = sorted(name for name in os.environ if name.startswith(kept))
    text = " ".join(f"{name}={os.environ[name]}" for name in found)
    return Check("Variables", "ok", text or "none set that change a recording")
