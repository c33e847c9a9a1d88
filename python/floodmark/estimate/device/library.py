"""Loads the phantom's library into a process that has not used CUDA yet.

`load` puts the library of `floodmark-phantom` in front of CUDA's: libraries that are loaded later
find its symbols, and those of a torch that is loaded already are redirected to it. Sees: the
machine, and the versions of torch's libraries. Knows nothing of recordings.
"""

from __future__ import annotations

import contextlib
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypedDict

from floodmark import _core, torch_private
from floodmark._core import FloodmarkError, PhantomError, PhantomLibrary
from floodmark.estimate.device import owned_folder

if TYPE_CHECKING:
    from collections.abc import Callable

    from floodmark.reports.answer_types import PhantomRead

#: The prefix of temporary folders.
_FOLDER = "floodmark-phantom-"

_loaded: Phantom | None = None


class Phantom:
    """The phantom GPU of this process."""

    def __init__(self, machine: _core.PhantomMachine, library: PhantomLibrary, folder: str) -> None:
        self.machine = machine
        self.library = library
        self.folder = folder
        self.values: Any = None
        #: The `torch.library.Library` of our kernels; they exist as long as it.
        self.kernels: Any = None
        #: Stops computing values, so that the host does only what it would do with a GPU.
        self.stop_following: Callable[[], None] = lambda: None

    def change(self, machine: _core.PhantomMachine) -> None:
        """Simulate another machine from now on; only allowed before the first allocation."""
        if machine != self.machine:
            versions = _library_versions()
            self.library = PhantomLibrary.start(machine, **versions, started=self.library)
            self.machine = machine

    def reads(self) -> list[PhantomRead]:
        """Reads of unknown values by the program."""
        return [] if self.values is None else list(self.values.reads())


def loaded() -> Phantom | None:
    """The phantom GPU of this process, if there is one."""
    return _loaded


def loaded_with(machine: _core.PhantomMachine) -> Phantom | None:
    """The phantom GPU of this process, if it simulates this machine."""
    return _loaded if _loaded is not None and _loaded.machine == machine else None


def load(machine: _core.PhantomMachine) -> Phantom:
    """Load the phantom so that torch finds this machine."""
    global _loaded
    if _loaded is not None:
        raise PhantomError("this process has a simulated GPU already")
    if sys.platform != "linux":
        raise PhantomError("a simulated GPU needs Linux")
    torch = sys.modules.get("torch")
    if torch is not None:
        _refuse_used_cuda(torch)
    library = PhantomLibrary.start(machine, **_library_versions())
    if torch is not None:
        _take_over(library, torch, machine.gpus)
    library.claim()
    try:
        owned_folder.remove_left(_FOLDER)
        folder = owned_folder.make(_FOLDER)
        _loaded = Phantom(machine, library, folder)
        _prepare_environment(folder)
    except OSError as error:
        # Not a `PhantomError`, after which fake tensors would be tried: they need the folder too.
        raise FloodmarkError(
            f"the temporary folder cannot be written: {error.strerror}\n\n"
            "hint: free space where temporary files go, or choose another folder with the "
            "variable `TMPDIR`"
        ) from error
    return _loaded


def _refuse_used_cuda(torch: ModuleType) -> None:
    """Raise if the process has used a GPU: CUDA is initialised once per process."""
    if torch_private.is_cuda_used(torch):
        raise PhantomError(
            "this process uses a GPU already, and CUDA begins once in a process\n\n"
            "hint: create the simulated GPU first, or use `floodmark estimate`"
        )


def _take_over(library: PhantomLibrary, torch: ModuleType, devices: int) -> None:
    """Redirect loaded libraries from CUDA to the phantom; undo it if torch finds no device."""
    is_ours = library.take_over()
    if not is_ours or torch_private.device_count(torch) != devices:
        library.restore()
        raise PhantomError(
            "torch was imported before the simulated GPU was created, "
            "and this build of torch cannot use it any more\n\n"
            "hint: create the simulated GPU first, or use `floodmark estimate`"
        )
    torch_private.forget_missing_device(torch)


class _LibraryVersions(TypedDict):
    """The versions of CUDA's libraries."""

    cuda: int
    cudnn: str
    nccl: int


def _library_versions() -> _LibraryVersions:
    return {"cuda": _cuda_version(), "cudnn": _cudnn_library(), "nccl": _nccl_version()}


def _cuda_version() -> int:
    """The CUDA version of torch's build, such as 13000 for 13.0, without importing torch."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        raise PhantomError("torch is not installed\n\nhint: `pip install torch`")
    facts: dict[str, Any] = {}
    exec(Path(spec.origin).with_name("version.py").read_text(), facts)
    if not facts.get("cuda"):
        raise PhantomError(
            f"torch {facts.get('__version__', '')} was built without CUDA\n\n"
            "hint: a simulated GPU needs the CUDA build of torch (on Linux, the one of PyPI)"
        )
    major, minor, *_ = str(facts["cuda"]).split(".")
    return int(major) * 1000 + int(minor) * 10


def _cudnn_library() -> str:
    """The path of the real cuDNN library that plans, or only its name if torch has none."""
    name = "libcudnn_graph.so.9"
    folders = [os.path.join(sys.prefix, "lib")]
    for package, inside in (("torch", "lib"), ("nvidia", "cudnn/lib")):
        spec = find_spec(package)
        places = spec.submodule_search_locations if spec else None
        folders[:0] = [os.path.join(place, inside) for place in places or ()]
    paths = [os.path.join(folder, name) for folder in folders]
    return next((path for path in paths if Path(path).exists()), name)


def _nccl_version() -> int:
    """The version of the installed NCCL, such as 22809 for 2.28.9, the default."""
    for name in ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11"):
        with contextlib.suppress(PackageNotFoundError, ValueError):
            major, minor, patch = map(int, version(name).split(".")[:3])
            return major * 10_000 + minor * 100 + patch
    return 22_809


def _prepare_environment(folder: str) -> None:
    """Let compilers find the phantom, with a separate cache: its entries are invalid on a real
    GPU."""
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    os.environ["TRITON_CACHE_DIR"] = os.path.join(folder, "triton")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(folder, "inductor")
    os.environ["PYTORCH_KERNEL_CACHE_PATH"] = os.path.join(folder, "kernels")
    Path(os.environ["PYTORCH_KERNEL_CACHE_PATH"]).mkdir()
    # Triton links its launchers against the driver in this folder.
    driver = Path(folder, "libcuda.so.1")
    driver.write_bytes(_core.phantom_image())
    Path(folder, "libcuda.so").symlink_to(driver.name)
    os.environ["TRITON_LIBCUDA_PATH"] = folder
    # A pool of compiler processes has no phantom, and may take minutes to end.
    if "TORCHINDUCTOR_COMPILE_THREADS" not in os.environ:
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        torch_private.compile_in_this_process()
