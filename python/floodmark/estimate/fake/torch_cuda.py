"""Replaces functions of `torch.cuda` for a torch that finds no GPU.

Under a CUDA build of torch the phantom's library does this below torch. Elsewhere (CPU builds,
other systems) these functions do, for the time of a block. Sees: torch.cuda. Undoes itself.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

from floodmark import _core, torch_private, torch_private_fakes
from floodmark.estimate.device import current_gpu
from floodmark.estimate.fake import device_guard
from floodmark.estimate.fake.attention import Attention
from floodmark.plugins import Plugin, Setting
from floodmark.recording import gpu_account

#: Functions that show the devices again, which only a block may see.
_hidden: list[Callable[[], None]] = []


@contextlib.contextmanager
def shown(torch: Any, name: str, memory: MemoryInfo) -> Iterator[None]:
    """Show the phantom's devices to torch for a block, and hide them again after it.

    The library cannot be unloaded, and a program that later checks for a GPU must not find the
    phantom. In the block the devices have the name `name` and the memory `memory`: the phantom
    knows no block of a fake tensor.
    """
    show()
    gpu_account.lend_cuda()
    # Initialise now, not when an operator chooses a kernel.
    torch.cuda.init()
    for index in range(torch.cuda.device_count()):
        torch.cuda.get_device_properties(index)
    properties = torch.cuda.get_device_properties
    # `get_device_name` calls it too.
    torch.cuda.get_device_properties = lambda device=None: _Properties(properties(device), name)
    memory_info = torch.cuda.mem_get_info
    torch.cuda.mem_get_info = memory
    try:
        yield
    finally:
        torch.cuda.get_device_properties = properties
        torch.cuda.mem_get_info = memory_info
        # A phantom that the user requested stays.
        if current_gpu.current() is None:
            torch_private.empty_cache(torch)
            _hide(torch)


class MemoryInfo:
    """`torch.cuda.mem_get_info`, with the memory of fake tensors and what lies outside torch."""

    def __init__(
        self,
        torch: Any,
        machine: _core.PhantomMachine,
        libraries: Callable[[str], list[tuple[str, int]]],
    ) -> None:
        self._torch = torch
        self._machine = machine
        self._libraries = libraries

    def __call__(self, device: Any = None) -> tuple[int, int]:
        index = None if device is None else self._torch.device(device).index
        if index is None:
            index = self._torch.cuda.current_device()
        held = sum(number for _, number in self._libraries(f"cuda:{index}"))
        used = self._machine.context + held + self._torch.cuda.memory_reserved(index)
        return self._machine.memory - used, self._machine.memory


def show() -> None:
    """Show the phantom's devices again."""
    while _hidden:
        _hidden.pop()()


def _hide(torch: Any) -> None:
    for name, answer in (("is_available", lambda: False), ("device_count", lambda: 0)):
        _hidden.append(partial(setattr, torch.cuda, name, getattr(torch.cuda, name)))
        setattr(torch.cuda, name, answer)


def allocator_config() -> str:
    """The allocator's settings in the environment, as torch reads them."""
    return os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or os.environ.get("PYTORCH_ALLOC_CONF", "")


class _Properties:
    """torch's device properties with another name: torch's own object is read-only."""

    def __init__(self, real: Any, name: str) -> None:
        self._real = real
        self.name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._real, attribute)

    def __repr__(self) -> str:
        return repr(self._real).replace(self._real.name, self.name)


class Devices(Plugin):
    """Functions of `torch.cuda` for devices that torch does not have."""

    name = "torch.cuda"
    library = "torch"
    is_required = True

    def __init__(
        self,
        setting: Setting,
        machine: _core.PhantomMachine,
        name: str,
        memory: MemoryInfo,
    ) -> None:
        super().__init__(setting)
        self._machine = machine
        self._name = name
        self._memory = memory
        self._current = 0
        self._torch: Any = None

    def attach(self, torch: ModuleType) -> None:
        """Patch `torch.cuda`."""
        self._torch = torch
        self.setting.notes.append(
            "torch was built without CUDA: attention kernels and workspaces are chosen by rules"
        )
        cuda: Any = torch.cuda
        for name, answer in self._functions().items():
            if hasattr(cuda, name):
                self.replace(cuda, name, answer)
        self._replace_accelerator(torch)
        self._lend_guard(torch)
        self._keep_random_states(cuda)
        attention = Attention(torch, self._machine.capability)
        functional: Any = torch.nn.functional
        original = functional.scaled_dot_product_attention
        self.replace(functional, "scaled_dot_product_attention", attention.in_place_of(original))

    def _replace_accelerator(self, torch: Any) -> None:
        """Replace `torch.accelerator` too: optimizers of torch 2.15 get a stream from it."""
        accelerator = getattr(torch, "accelerator", None)
        answers = {
            "device_count": lambda: self.setting.gpus,
            "current_device_index": lambda: self._current,
            "current_device_idx": lambda: self._current,
            "set_device_index": self._set_device,
            "set_device_idx": self._set_device,
            "current_stream": lambda _device=None: _Stream(),
            "set_stream": lambda _stream: None,
            "synchronize": lambda _device=None: None,
        }
        for name, answer in answers.items():
            if hasattr(accelerator, name):
                self.replace(accelerator, name, answer)

    def _lend_guard(self, torch: Any) -> None:
        """Register a device guard: without CUDA, torch cannot switch to the tensors' device."""
        fakes = torch_private_fakes.fake_tensor_module()
        for name in ("init_gpu_context", "init_cuda_context"):
            if hasattr(fakes, name):
                self.replace(fakes, name, lambda *_args: None)
        self.on_exit(device_guard.lend(torch, lambda: self._current))
        self.on_exit(torch_private_fakes.lift_host_tensors_alone(torch))

    def _functions(self) -> dict[str, Any]:
        """The functions of `torch.cuda` that programs call before they compute."""
        about = self._properties()
        return {
            "is_available": lambda: True,
            "is_initialized": lambda: True,
            "init": lambda: None,
            torch_private.LAZY_INIT: lambda: None,
            "device_count": lambda: self.setting.gpus,
            "current_device": lambda: self._current,
            "set_device": self._set_device,
            "get_device_name": lambda _device=None: about.name,
            "get_device_capability": lambda _device=None: (about.major, about.minor),
            "get_device_properties": lambda _device=None: about,
            "mem_get_info": self._memory,
            "synchronize": lambda _device=None: None,
            "is_bf16_supported": lambda *_args, **_named: about.major >= 8,
            "is_current_stream_capturing": lambda: False,
            "current_stream": lambda _device=None: _Stream(),
            "default_stream": lambda _device=None: _Stream(),
            "set_stream": lambda _stream: None,
            "stream": lambda _stream: contextlib.nullcontext(),
            "Stream": _Stream,
            "Event": _Event,
            "device": lambda device: self._other_device(device),
            "device_of": lambda _tensor: contextlib.nullcontext(),
            "manual_seed": lambda _seed: None,
            "manual_seed_all": lambda _seed: None,
            "ipc_collect": lambda: None,
        }

    def _properties(self) -> SimpleNamespace:
        machine = self._machine
        major, minor = machine.capability
        return SimpleNamespace(
            name=self._name,
            major=major,
            minor=minor,
            total_memory=machine.memory,
            multi_processor_count=machine.multiprocessors,
            is_integrated=0,
            is_multi_gpu_board=0,
            warp_size=machine.warp_size,
            max_threads_per_multi_processor=machine.threads_per_multiprocessor,
            regs_per_multiprocessor=machine.registers_per_multiprocessor,
            shared_memory_per_block=machine.shared_per_block,
            shared_memory_per_block_optin=machine.shared_per_block_optin,
            shared_memory_per_multiprocessor=machine.shared_per_multiprocessor,
            L2_cache_size=machine.l2,
            gcnArchName="",
        )

    def _index(self, device: Any) -> int:
        if isinstance(device, int):
            return device
        index = self._torch.device(device).index
        return self._current if index is None else int(index)

    def _set_device(self, device: Any) -> None:
        self._current = self._index(device)

    @contextlib.contextmanager
    def _other_device(self, device: Any) -> Iterator[None]:
        before = self._current
        self._current = self._index(device) if device is not None else before
        try:
            yield
        finally:
            self._current = before

    def _keep_random_states(self, cuda: Any) -> None:
        """A random state that checkpoints can save and restore."""
        torch = self._torch

        def state(_device: Any = None) -> Any:
            with torch_private.outside_modes():
                return torch.zeros(16, dtype=torch.uint8)

        def states() -> list[Any]:
            return [state() for _ in range(self.setting.gpus)]

        def nothing(*_args: Any) -> None:
            return None

        answers: dict[str, Any] = {
            "get_rng_state": state,
            "get_rng_state_all": states,
            "set_rng_state": nothing,
            "set_rng_state_all": nothing,
        }
        self.replace_in((cuda, cuda.random), answers)


class _Stream:
    """A CUDA stream without work."""

    cuda_stream = 0
    stream_id = 0
    device_index = 0

    def __init__(self, *_args: Any, **_named: Any) -> None:
        return None

    def synchronize(self) -> None:
        """Return at once: nothing runs."""

    def query(self) -> bool:
        """True: all work has ended."""
        return True

    def is_capturing(self) -> bool:
        """False: no CUDA graph is captured."""
        return False

    def wait_stream(self, _stream: Any) -> None:
        """Return at once."""

    def wait_event(self, _event: Any) -> None:
        """Return at once: the event has happened."""

    def record_event(self, event: Any = None) -> Any:
        """Record an event, which happens at once."""
        return event or _Event()

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_error: object) -> None:
        return None


class _Event:
    """An event that has happened when it is recorded."""

    def __init__(self, *_args: Any, **_named: Any) -> None:
        self._at = time.perf_counter()

    def record(self, _stream: Any = None) -> None:
        """Now."""
        self._at = time.perf_counter()

    def wait(self, _stream: Any = None) -> None:
        """Return at once: the event has happened."""

    def synchronize(self) -> None:
        """Return at once: the event has happened."""

    def query(self) -> bool:
        """Whether the event was recorded."""
        return True

    def elapsed_time(self, other: _Event) -> float:
        """Milliseconds between two events by the host's clock."""
        return (other._at - self._at) * 1000
