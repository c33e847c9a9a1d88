"""A device guard for CUDA in a torch that was built without it.

Autograd calls the guard of a tensor's device for the current device and stream. A build without
CUDA has no guard for CUDA and raises. The CPU's guard does nothing; this one is a copy of it with
three other functions, which return a CUDA device. Sees: torch's exported table of guards.
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
#: An upper limit of the number of functions of a guard in all versions.
_SLOTS = 48
#: A `c10::Device` is two bytes, type and index; the CPU's guard returns no index.
_CPU_DEVICE = 0xFF00 | _CPU

_ASKS_TYPE = ctypes.CFUNCTYPE(ctypes.c_int8, ctypes.c_void_p)
_ASKS_DEVICE = ctypes.CFUNCTYPE(ctypes.c_uint16, ctypes.c_void_p)
_SETS_DEVICE = ctypes.CFUNCTYPE(ctypes.c_uint16, ctypes.c_void_p, ctypes.c_uint16)

#: Objects to which torch may still have a pointer.
_kept: list[Any] = []


def lend(torch: Any, current: Callable[[], int]) -> Callable[[], None]:
    """Register a guard for CUDA whose device is `current`; returns a function that removes it.

    Does nothing if CUDA has a guard, or if torch's table is not as expected.
    """
    table = _table(torch)
    if table is None or table[_CUDA] is not None or table[_CPU] is None:
        return _do_nothing
    cpu = table[_CPU]
    functions = (ctypes.c_void_p * _SLOTS).from_address(
        ctypes.c_void_p.from_address(cpu).value or 0
    )
    if not _has_known_layout(cpu, functions):
        return _do_nothing
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

    def remove() -> None:
        table[_CUDA] = None

    return remove


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


def _has_known_layout(guard: int, functions: Any) -> bool:
    """Whether the CPU's guard returns the expected values, so that its functions are where we
    expect."""
    is_cpu = _ASKS_TYPE(functions[_TYPE])(guard) == _CPU
    return bool(
        is_cpu
        and _ASKS_DEVICE(functions[_GET])(guard) == _CPU_DEVICE
        and _SETS_DEVICE(functions[_EXCHANGE])(guard, _CPU_DEVICE) == _CPU_DEVICE
    )


def _do_nothing() -> None:
    return None
