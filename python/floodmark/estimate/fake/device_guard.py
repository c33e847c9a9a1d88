"""A device guard for CUDA in a torch that was built without it.

Autograd asks the guard of a tensor's device for the current device and stream. A build without CUDA
has none, and refuses. The CPU's guard does nothing; ours is the same but for three functions, which
say that the current device is a CUDA one. Sees: torch's exported table of guards.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: `DeviceType::CPU` and `DeviceType::CUDA`, as torch numbers them.
_CPU, _CUDA = 0, 1
#: The first functions of a guard: `type`, `exchangeDevice`, `getDevice`.
_TYPE, _EXCHANGE, _GET = range(3)
#: At least as many functions as a guard has in any version.
_SLOTS = 48
#: A `c10::Device` is two bytes: its type and its index; the CPU's guard answers with no index.
_CPU_DEVICE = 0xFF00 | _CPU

_ASKS_TYPE = ctypes.CFUNCTYPE(ctypes.c_int8, ctypes.c_void_p)
_ASKS_DEVICE = ctypes.CFUNCTYPE(ctypes.c_uint16, ctypes.c_void_p)
_SETS_DEVICE = ctypes.CFUNCTYPE(ctypes.c_uint16, ctypes.c_void_p, ctypes.c_uint16)

#: What torch may still hold a pointer to.
_kept: list[Any] = []


def lend(torch: Any, current: Callable[[], int]) -> Callable[[], None]:
    """Give CUDA a guard whose device is `current`; returns what takes it away again.

    Nothing is done where CUDA has one, or where the table is not as we know it.
    """
    table = _table(torch)
    if table is None or table[_CUDA] is not None or table[_CPU] is None:
        return _nothing
    cpu = table[_CPU]
    functions = (ctypes.c_void_p * _SLOTS).from_address(
        ctypes.c_void_p.from_address(cpu).value or 0
    )
    if not _is_as_known(cpu, functions):
        return _nothing
    ours = (ctypes.c_void_p * _SLOTS)(*functions)

    def device(_guard: int) -> int:
        return current() << 8 | _CUDA

    def exchange(_guard: int, _device: int) -> int:
        return current() << 8 | _CUDA

    answers = [_ASKS_TYPE(lambda _guard: _CUDA), _SETS_DEVICE(exchange), _ASKS_DEVICE(device)]
    for slot, answer in zip((_TYPE, _EXCHANGE, _GET), answers, strict=True):
        ours[slot] = ctypes.cast(answer, ctypes.c_void_p).value
    guard = (ctypes.c_void_p * 1)(ctypes.addressof(ours))
    _kept.extend([ours, answers, guard])
    table[_CUDA] = ctypes.addressof(guard)

    def take_away() -> None:
        table[_CUDA] = None

    return take_away


def _table(torch: Any) -> Any:
    folder = Path(str(torch.__file__)).parent / "lib"
    for name in ("libc10.so", "libc10.dylib"):
        if (folder / name).exists():
            try:
                library = ctypes.CDLL(str(folder / name))
                symbol = "_ZN3c104impl26device_guard_impl_registryE"
                return (ctypes.c_void_p * 2).in_dll(library, symbol)
            except (OSError, ValueError):
                return None
    return None


def _is_as_known(guard: int, functions: Any) -> bool:
    """Whether the CPU's guard answers as it must where its functions are where we think."""
    is_cpu = _ASKS_TYPE(functions[_TYPE])(guard) == _CPU
    return bool(
        is_cpu
        and _ASKS_DEVICE(functions[_GET])(guard) == _CPU_DEVICE
        and _SETS_DEVICE(functions[_EXCHANGE])(guard, _CPU_DEVICE) == _CPU_DEVICE
    )


def _nothing() -> None:
    return None
