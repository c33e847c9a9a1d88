"""A simulated GPU, for a process that has not used another one yet.

`load` puts the library of `floodmark-phantom` in front of CUDA's: its symbols are visible to all
that is loaded afterwards, and where torch is loaded already, what it calls is changed. Sees: the
settings, as text lines. Knows nothing of recordings.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from floodmark import _core, torch_private
from floodmark._core import PhantomError
from floodmark.estimate.phantom import owned_folder

#: How the names of temporary folders begin.
_FOLDER = "floodmark-phantom-"

_loaded: Phantom | None = None


class Phantom:
    """The phantom GPU of this process."""

    def __init__(self, library: ctypes.CDLL, settings: dict[str, str], folder: str) -> None:
        self.settings = settings
        self.folder = folder
        self.values: Any = None
        #: torch's library that has our kernels; they are there as long as it is.
        self.kernels: Any = None
        self._library = library
        library.floodmark_phantom_account.restype = ctypes.c_size_t
        library.floodmark_phantom_account.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
        library.floodmark_phantom_surety.argtypes = [ctypes.c_uint64, ctypes.c_uint64]
        library.floodmark_phantom_set.argtypes = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int]
        library.floodmark_phantom_set.restype = None
        library.floodmark_phantom_answer.argtypes = [ctypes.c_int, ctypes.c_int64]
        library.floodmark_phantom_answer.restype = None
        library.floodmark_phantom_group_size.argtypes = [ctypes.c_int, ctypes.c_uint64]
        library.floodmark_phantom_group_size.restype = None

    @property
    def library(self) -> ctypes.CDLL:
        """The library, for what asks it often."""
        return self._library

    def account(self) -> dict[str, list[dict[str, Any]]]:
        """What the phantom could not do, and what it was asked for and did not know."""
        size = 1 << 16
        while True:
            buffer = ctypes.create_string_buffer(size)
            needed = self._library.floodmark_phantom_account(buffer, size)
            if needed <= size:
                break
            size = needed
        account: dict[str, list[dict[str, Any]]] = {"unsupported": [], "reads": [], "devices": []}
        context = int(self.settings.get("context", 0))
        for line in buffer.value.decode().splitlines():
            kind, *facts = line.split()
            if kind == "device":
                _, capacity, _free, peak = map(int, facts)
                device = {"capacity": capacity + context, "context": context}
                account["devices"].append(device | {"peak_driver_bytes": peak})
            elif kind != "reads":
                name, count = facts
                account["unsupported"].append({"library": kind, "name": name, "count": int(count)})
        if self.values is not None:
            account["reads"] = self.values.reads()
        return account


def loaded() -> Phantom | None:
    """The phantom GPU of this process, if there is one."""
    return _loaded


def loaded_with(settings: str) -> Phantom | None:
    """The phantom GPU of this process, if it has these settings."""
    pairs = dict(line.split("=", 1) for line in settings.splitlines() if line.strip())
    if _loaded is not None and pairs.items() <= _loaded.settings.items():
        return _loaded
    return None


def load(settings: str) -> Phantom:
    """Make the machine of `settings` (lines `key=value`) the one that torch will find."""
    global _loaded
    pairs = dict(line.split("=", 1) for line in settings.splitlines() if line.strip())
    if _loaded is not None:
        raise PhantomError("this process has a phantom GPU already")
    if sys.platform != "linux":
        raise PhantomError("a phantom GPU needs Linux")
    torch = sys.modules.get("torch")
    if torch is not None:
        _refuse_what_has_begun(torch)
    pairs.setdefault("cuda", _cuda_version())
    pairs.setdefault("cudnn", _cudnn_library())
    if nccl := _nccl_version():
        pairs.setdefault("nccl", nccl)
    library = _start_library(pairs, torch)
    owned_folder.remove_left(_FOLDER)
    folder = owned_folder.make(_FOLDER)
    _loaded = Phantom(library, pairs, folder)
    _prepare_environment(folder)
    return _loaded


def _refuse_what_has_begun(torch: ModuleType) -> None:
    """CUDA begins once in a process, and a recording has found its places already."""
    if torch_private.is_cuda_used(torch):
        raise PhantomError(
            "this process uses a GPU already, and CUDA begins once in a process\n\n"
            "hint: create the phantom GPU first, or use `floodmark estimate`"
        )
    # Hooks may wait for the next recording.
    _core.disarm()
    if _core.is_recording():
        raise PhantomError(
            "a recording runs, and torch was imported before the phantom GPU was created\n\n"
            "hint: stop the recording first, or create the phantom GPU before it"
        )


def _start_library(settings: dict[str, str], torch: ModuleType | None) -> ctypes.CDLL:
    """Load the library from memory, with its symbols visible to all that comes after it."""
    descriptor = os.memfd_create("libfloodmark_phantom.so")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(_core.phantom_image())
        path = f"/proc/self/fd/{descriptor}"
        library = ctypes.CDLL(path)
        error = ctypes.create_string_buffer(512)
        text = "\n".join(f"{key}={value}" for key, value in settings.items())
        if library.floodmark_phantom_start(text.encode(), error, len(error)):
            raise PhantomError(f"the phantom GPU could not be created: {error.value.decode()}")
        if torch is not None:
            _take_over(library, torch, int(settings.get("devices", 1)))
        # Until here nothing sees it.
        ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        if library.floodmark_phantom_claim(error, len(error)):
            raise PhantomError(f"the phantom GPU could not be created: {error.value.decode()}")
        return library
    finally:
        os.close(descriptor)


def _take_over(library: ctypes.CDLL, torch: ModuleType, devices: int) -> None:
    """Take CUDA's place in what is loaded; where torch does not find the device, undo it."""
    is_ours = library.floodmark_phantom_take_over()
    if not is_ours or torch_private.device_count(torch) != devices:
        library.floodmark_phantom_give_back()
        raise PhantomError(
            "torch was imported before the phantom GPU was created, "
            "and this build of torch cannot use it any more\n\n"
            "hint: create the phantom GPU first, or use `floodmark estimate`"
        )
    torch_private.forget_that_there_was_none(torch)


def _cuda_version() -> str:
    """The CUDA that torch was built with, as 13000 for 13.0, without importing torch."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        raise PhantomError("torch is not installed\n\nhint: `pip install torch`")
    facts: dict[str, Any] = {}
    exec(Path(spec.origin).with_name("version.py").read_text(), facts)
    if not facts.get("cuda"):
        raise PhantomError(
            f"torch {facts.get('__version__', '')} was built without CUDA\n\n"
            "hint: a phantom GPU needs the CUDA build of torch (on Linux, the one of PyPI)"
        )
    major, minor, *_ = str(facts["cuda"]).split(".")
    return str(int(major) * 1000 + int(minor) * 10)


def _cudnn_library() -> str:
    """The part of the real cuDNN that plans; by its name alone where torch's own is not found."""
    name = "libcudnn_graph.so.9"
    folders = [os.path.join(sys.prefix, "lib")]
    for package, inside in (("torch", "lib"), ("nvidia", "cudnn/lib")):
        spec = find_spec(package)
        places = spec.submodule_search_locations if spec else None
        folders[:0] = [os.path.join(place, inside) for place in places or ()]
    paths = [os.path.join(folder, name) for folder in folders]
    return next((path for path in paths if Path(path).exists()), name)


def _nccl_version() -> str:
    """The NCCL that was installed with torch, as 22809 for 2.28.9; empty when there is none."""
    for name in ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11"):
        with contextlib.suppress(PackageNotFoundError, ValueError):
            major, minor, patch = map(int, version(name).split(".")[:3])
            return str(major * 10_000 + minor * 100 + patch)
    return ""


def _prepare_environment(folder: str) -> None:
    """Show compilers the phantom, and keep what they cache apart: it is void on a real GPU."""
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "inductor")
    os.environ["PYTORCH_KERNEL_CACHE_PATH"] = os.path.join(folder, "kernels")
    Path(os.environ["PYTORCH_KERNEL_CACHE_PATH"]).mkdir()
    # Triton links what launches its kernels against the driver that it finds here.
    driver = Path(folder, "libcuda.so.1")
    driver.write_bytes(_core.phantom_image())
    Path(folder, "libcuda.so").symlink_to(driver.name)
    os.environ["TRITON_LIBCUDA_PATH"] = folder
    # Other processes have no phantom, and the pool of compilers may wait for minutes at its end.
    if "TORCHINDUCTOR_COMPILE_THREADS" not in os.environ:
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        torch_private.compile_in_this_process()
