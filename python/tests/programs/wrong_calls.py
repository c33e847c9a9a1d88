"""Wrong calls of CUDA's memory functions: the list, and how to make one of them.

`python python/tests/programs/wrong_calls.py --record FILE` asks a real GPU. A bad pointer to host
memory may end the process there: the calls after it are made in a new one.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

KIB, MIB = 1 << 10, 1 << 20
PAGE = 4096
WILD = 0x4141_4141_0000
NOT_CANONICAL = 0xDEAD_BEEF_DEAD_BEEF
LAST = (1 << 64) - 1

#: The arguments of each function: p pointer, s size, i int, u unsigned, h unsigned short, b byte.
SIGNATURES = {
    "cudaMemcpy": "ppsi",
    "cudaMemcpyAsync": "ppsip",
    "cudaMemcpyPeer": "pipis",
    "cudaMemcpyPeerAsync": "pipisp",
    "cudaMemcpy2D": "pspsssi",
    "cudaMemcpy2DAsync": "pspsssip",
    "cudaMemset": "pis",
    "cudaMemsetAsync": "pisp",
    "cudaMemset2D": "psiss",
    "cudaMemset2DAsync": "psissp",
    "cudaMalloc": "ps",
    "cudaMallocHost": "ps",
    "cudaHostAlloc": "psu",
    "cudaMallocManaged": "psu",
    "cudaFree": "p",
    "cudaFreeHost": "p",
    "cudaHostRegister": "psu",
    "cudaHostUnregister": "p",
    "cudaHostGetDevicePointer": "ppu",
    "cudaHostGetFlags": "pp",
    "cudaPointerGetAttributes": "pp",
    "cudaMemGetInfo": "pp",
    "cudaSetDevice": "i",
    "cuMemcpy": "pps",
    "cuMemcpyAsync": "ppsp",
    "cuMemcpyHtoD_v2": "pps",
    "cuMemcpyHtoDAsync_v2": "ppsp",
    "cuMemcpyDtoH_v2": "pps",
    "cuMemcpyDtoHAsync_v2": "ppsp",
    "cuMemcpyDtoD_v2": "pps",
    "cuMemcpyDtoDAsync_v2": "ppsp",
    "cuMemsetD8_v2": "pbs",
    "cuMemsetD8Async": "pbsp",
    "cuMemsetD16_v2": "phs",
    "cuMemsetD16Async": "phsp",
    "cuMemsetD32_v2": "pus",
    "cuMemsetD32Async": "pusp",
    "cuMemAlloc_v2": "ps",
    "cuMemFree_v2": "p",
    "cuMemAllocHost_v2": "ps",
    "cuMemHostAlloc": "psu",
    "cuMemFreeHost": "p",
    "cuMemGetAddressRange_v2": "ppp",
    "cuPointerGetAttribute": "pip",
    "cuMemGetInfo_v2": "pp",
    "cuMemHostGetDevicePointer_v2": "ppu",
}
TYPES = {
    "p": ctypes.c_uint64,
    "s": ctypes.c_size_t,
    "i": ctypes.c_int,
    "u": ctypes.c_uint,
    "h": ctypes.c_ushort,
    "b": ctypes.c_ubyte,
}

H2H, H2D, D2H, D2D, DEFAULT = range(5)


def _cases() -> list[tuple[str, str, tuple[Any, ...]]]:
    """Name, function, arguments. An argument that is a text names memory, `+n` bytes further."""
    cases: list[tuple[str, str, tuple[Any, ...]]] = []

    def add(name: str, function: str, *arguments: Any) -> None:
        cases.append((name, function, arguments))

    bad_hosts = ["null", "unmapped", "none", "wild", "not_canonical", "last", "guard-512"]
    for kind, label in ((H2D, "h2d"), (DEFAULT, "default")):
        for bad in bad_hosts:
            add(f"{label} from {bad}", "cudaMemcpy", "device", bad, PAGE, kind)
    add("h2d 1 MiB from unmapped", "cudaMemcpy", "device", "unmapped", MIB, H2D)
    add("h2d 1 MiB from guard", "cudaMemcpy", "device", "guard-4096", MIB, H2D)
    add("h2d 64 bytes from unmapped", "cudaMemcpy", "device", "unmapped", 64, H2D)
    for bad in [*bad_hosts, "readonly"]:
        add(f"d2h to {bad}", "cudaMemcpy", bad, "device", PAGE, D2H)
    add("d2h 1 MiB to unmapped", "cudaMemcpy", "unmapped", "device", MIB, D2H)
    add("d2h 1 MiB to readonly", "cudaMemcpy", "readonly", "device", MIB, D2H)
    add("default to readonly", "cudaMemcpy", "readonly", "device", PAGE, DEFAULT)
    for bad in ("null", "unmapped", "guard-512"):
        add(f"h2h from {bad}", "cudaMemcpy", "host", bad, PAGE, H2H)
        add(f"h2h to {bad}", "cudaMemcpy", bad, "host", PAGE, H2H)
        add(f"default h2h from {bad}", "cudaMemcpy", "host", bad, PAGE, DEFAULT)
    for bad in ("null", "freed", "wild", "host", "beyond", "pinned", "managed"):
        add(f"h2d to {bad}", "cudaMemcpy", bad, "host", PAGE, H2D)
        add(f"d2h from {bad}", "cudaMemcpy", "host", bad, PAGE, D2H)
        add(f"d2d from {bad}", "cudaMemcpy", "device", bad, PAGE, D2D)
        add(f"d2d to {bad}", "cudaMemcpy", bad, "device", PAGE, D2D)
    for bad in ("freed", "beyond"):
        add(f"default from {bad}", "cudaMemcpy", "host", bad, PAGE, DEFAULT)
        add(f"default to {bad}", "cudaMemcpy", bad, "host", PAGE, DEFAULT)
    for bytes_, label in ((1 << 40, "2^40"), (1 << 63, "2^63"), (LAST, "2^64-1")):
        add(f"h2d of {label}", "cudaMemcpy", "device", "host", bytes_, H2D)
        add(f"d2h of {label}", "cudaMemcpy", "host", "device", bytes_, D2H)
        add(f"d2d of {label}", "cudaMemcpy", "device", "other", bytes_, D2D)
        add(f"default of {label}", "cudaMemcpy", "device", "host", bytes_, DEFAULT)
        add(f"h2h of {label}", "cudaMemcpy", "host", "pinned", bytes_, H2H)
        add(f"memset of {label}", "cudaMemset", "device", 0, bytes_)
    for to, label in (("device+4194303", "page block"), ("small+4095", "small block")):
        for extra in (1, 2, 512, PAGE):
            add(f"h2d ends {extra - 1} past a {label}", "cudaMemcpy", to, "host", extra, H2D)
            add(f"d2h ends {extra - 1} past a {label}", "cudaMemcpy", "host", to, extra, D2H)
            add(f"memset ends {extra - 1} past a {label}", "cudaMemset", to, 1, extra)
    add("d2d ends past a page block", "cudaMemcpy", "device+4194303", "other", 2, D2D)
    add("d2d begins at the end", "cudaMemcpy", "other", "device+4194304", 2, D2D)
    add("h2d 4 MiB past a small block", "cudaMemcpy", "small", "host4", 4 * MIB, H2D)
    add("memset 4 MiB past a small block", "cudaMemset", "small", 0, 4 * MIB)
    add("d2h past pinned", "cudaMemcpy", "pinned+1048575", "device", 2, D2H)
    add("h2d past pinned", "cudaMemcpy", "device", "pinned+1048575", 2, H2D)
    for kind in (5, -1, 100):
        add(f"kind {kind}", "cudaMemcpy", "device", "host", PAGE, kind)
        add(f"kind {kind} of 0 bytes", "cudaMemcpy", "device", "host", 0, kind)
        add(f"async kind {kind}", "cudaMemcpyAsync", "device", "host", PAGE, kind, 0)
    for kind, label in ((H2H, "h2h"), (H2D, "h2d"), (D2H, "d2h"), (D2D, "d2d")):
        add(f"{label} of two device blocks", "cudaMemcpy", "device", "other", PAGE, kind)
        add(f"{label} of two host blocks", "cudaMemcpy", "host", "host4", PAGE, kind)
        add(f"{label} onto the device", "cudaMemcpy", "device", "host", PAGE, kind)
        add(f"{label} off the device", "cudaMemcpy", "host", "device", PAGE, kind)
        add(f"{label} of pinned onto the device", "cudaMemcpy", "device", "pinned", PAGE, kind)
        add(f"async {label} onto the device", "cudaMemcpyAsync", "device", "host", PAGE, kind, 0)
        add(f"async {label} off the device", "cudaMemcpyAsync", "host", "device", PAGE, kind, 0)
    add("nothing from null", "cudaMemcpy", "device", "null", 0, H2D)
    add("nothing to null", "cudaMemcpy", "null", "host", 0, H2D)
    add("nothing from freed", "cudaMemcpy", "host", "freed", 0, D2H)
    add("nothing from unmapped", "cudaMemcpy", "device", "unmapped", 0, DEFAULT)
    for bad in ("null", "unmapped", "guard-512", "not_canonical"):
        add(f"async h2d from {bad}", "cudaMemcpyAsync", "device", bad, PAGE, H2D, 0)
        add(f"async d2h to {bad}", "cudaMemcpyAsync", bad, "device", PAGE, D2H, 0)
    add("async h2d past the end", "cudaMemcpyAsync", "device+4194303", "host", 2, H2D, 0)
    add("async d2d of 2^40", "cudaMemcpyAsync", "device", "other", 1 << 40, D2D, 0)
    add("async h2d to freed", "cudaMemcpyAsync", "freed", "host", PAGE, H2D, 0)
    for bad in ("null", "freed", "host", "unmapped", "wild", "beyond", "not_canonical", "readonly"):
        add(f"memset of {bad}", "cudaMemset", bad, 0, PAGE)
        add(f"async memset of {bad}", "cudaMemsetAsync", bad, 0, PAGE, 0)
    add("memset of pinned", "cudaMemset", "pinned", 1, PAGE)
    add("memset of managed", "cudaMemset", "managed", 1, PAGE)
    add("memset of nothing at null", "cudaMemset", "null", 0, 0)
    add("memset of nothing at host", "cudaMemset", "host", 0, 0)
    add("memset with 2^20 + 7", "cudaMemset", "device", MIB + 7, PAGE)
    add("memset2d pitch below width", "cudaMemset2D", "device", 64, 0, 128, 4)
    add("memset2d past the end", "cudaMemset2D", "device", MIB, 0, MIB, 5)
    add("memset2d last row past the end", "cudaMemset2D", "device+1", MIB, 0, MIB, 4)
    add("memset2d only the pitch past the end", "cudaMemset2D", "device", MIB, 0, 64, 4)
    add("memset2d of host", "cudaMemset2D", "host", 64, 0, 64, 4)
    add("memset2d of 2^40 rows", "cudaMemset2D", "device", 64, 0, 64, 1 << 40)
    add("memset2d of no rows at null", "cudaMemset2D", "null", 64, 0, 64, 0)
    add("memset2d pitch 2^40 one row", "cudaMemset2D", "device", 1 << 40, 0, 64, 1)
    add("async memset2d pitch below width", "cudaMemset2DAsync", "device", 64, 0, 128, 4, 0)
    add("async memset2d past the end", "cudaMemset2DAsync", "device", MIB, 0, MIB, 5, 0)
    for name, extra in (("cudaMemcpy2D", ()), ("cudaMemcpy2DAsync", (0,))):
        label = "copy2d" if not extra else "async copy2d"

        def add2(
            text: str, *given: Any, name: str = name, extra: Any = extra, label: str = label
        ) -> None:
            add(f"{label} {text}", name, *given, *extra)

        add2("fits", "device", 64, "host", 64, 64, 4, H2D)
        add2("to-pitch below width", "device", 32, "host", 64, 64, 4, H2D)
        add2("from-pitch below width", "device", 64, "host", 32, 64, 4, H2D)
        add2("past the end", "device", MIB, "host4", MIB, MIB, 5, H2D)
        add2("last row past the end", "device+1", MIB, "host4", MIB, MIB, 4, H2D)
        add2("only the pitch past the end", "device+64", MIB, "host4", MIB, 64, 4, H2D)
        add2("2^40 rows", "device", 64, "host", 64, 64, 1 << 40, H2D)
        add2("pitch 2^40", "device", 1 << 40, "host", 64, 64, 2, H2D)
        add2("pitch 2^40, one row", "device", 1 << 40, "host", 64, 64, 1, H2D)
        add2("pitch 2^32", "device", 1 << 32, "host", 64, 64, 1, H2D)
        add2("pitch 2^31", "device", 1 << 31, "host", 64, 64, 1, H2D)
        add2("pitch 2^31 - 1", "device", (1 << 31) - 1, "host", 64, 64, 1, H2D)
        add2("no rows from null", "device", 64, "null", 64, 64, 0, H2D)
        add2("no width to null", "null", 64, "host", 64, 0, 4, H2D)
        add2("from null", "device", 64, "null", 64, 64, 4, H2D)
        add2("from unmapped", "device", 64, "unmapped", 64, 64, 4, H2D)
        add2("to unmapped", "unmapped", 64, "device", 64, 64, 4, D2H)
        add2("to freed", "freed", 64, "host", 64, 64, 4, H2D)
        add2("kind 7", "device", 64, "host", 64, 64, 4, 7)
        add2("d2h onto the device", "device", 64, "host", 64, 64, 4, D2H)
        add2("h2d off the device", "host", 64, "device", 64, 64, 4, H2D)
    add("peer to device 99", "cudaMemcpyPeer", "device", 99, "other", 0, PAGE)
    add("peer from device -1", "cudaMemcpyPeer", "device", 0, "other", -1, PAGE)
    add("peer on one device", "cudaMemcpyPeer", "device", 0, "other", 0, PAGE)
    add("peer from null", "cudaMemcpyPeer", "device", 0, "null", 0, PAGE)
    add("peer from host", "cudaMemcpyPeer", "device", 0, "host", 0, PAGE)
    add("peer past the end", "cudaMemcpyPeer", "device+4194303", 0, "other", 0, 2)
    add("async peer to device 99", "cudaMemcpyPeerAsync", "device", 99, "other", 0, PAGE, 0)
    add("async peer from freed", "cudaMemcpyPeerAsync", "device", 0, "freed", 0, PAGE, 0)

    for name, extra in (("", ()), ("Async", (0,))):
        label = "driver async" if extra else "driver"
        tail = "_v2"
        add(f"{label} copy from unmapped", f"cuMemcpy{name}", "device", "unmapped", PAGE, *extra)
        add(f"{label} copy from freed", f"cuMemcpy{name}", "host", "freed", PAGE, *extra)
        add(f"{label} copy to null", f"cuMemcpy{name}", "null", "device", PAGE, *extra)
        add(f"{label} copy of 2^40", f"cuMemcpy{name}", "device", "other", 1 << 40, *extra)
        h2d, d2h, d2d = (f"cuMemcpy{way}{name}{tail}" for way in ("HtoD", "DtoH", "DtoD"))
        for bad in ("null", "unmapped", "guard-512", "not_canonical"):
            add(f"{label} h2d from {bad}", h2d, "device", bad, PAGE, *extra)
            add(f"{label} d2h to {bad}", d2h, bad, "device", PAGE, *extra)
        add(f"{label} d2h to readonly", d2h, "readonly", "device", PAGE, *extra)
        for bad in ("null", "host", "freed", "beyond"):
            add(f"{label} h2d to {bad}", h2d, bad, "host", PAGE, *extra)
            add(f"{label} d2h from {bad}", d2h, "host", bad, PAGE, *extra)
            add(f"{label} d2d to {bad}", d2d, bad, "device", PAGE, *extra)
        add(f"{label} h2d from device", h2d, "device", "other", PAGE, *extra)
        add(f"{label} d2h to device", d2h, "other", "device", PAGE, *extra)
        add(f"{label} h2d past the end", h2d, "device+4194303", "host", 2, *extra)
        add(f"{label} d2h past a small block", d2h, "host", "small+4095", 2, *extra)
        add(f"{label} d2d of 2^40", d2d, "device", "other", 1 << 40, *extra)
        add(f"{label} h2d of 2^64-1", h2d, "device", "host", LAST, *extra)
        add(f"{label} nothing from null", h2d, "device", "null", 0, *extra)
        for width, function in ((8, "cuMemsetD8"), (16, "cuMemsetD16"), (32, "cuMemsetD32")):
            function += name or tail
            count = 4 * MIB * 8 // width
            text = f"{label} memset {width}"
            add(f"{text} of null", function, "null", 1, 16, *extra)
            add(f"{text} of host", function, "host", 1, 16, *extra)
            add(f"{text} of freed", function, "freed", 1, 16, *extra)
            add(f"{text} past the end", function, "device", 1, count + 1, *extra)
            add(f"{text} to the end", function, "device", 1, count, *extra)
            add(f"{text} of 2^40", function, "device", 0, 1 << 40, *extra)
            add(f"{text} of 2^62", function, "device", 0, 1 << 62, *extra)
            add(f"{text} of 2^63", function, "device", 0, 1 << 63, *extra)
            add(f"{text} of nothing at null", function, "null", 0, 0, *extra)
            add(f"{text} off its alignment", function, "device+1", 1, 16, *extra)

    add("malloc to null", "cudaMalloc", "null", PAGE)
    add("malloc of nothing", "cudaMalloc", "result", 0)
    for bytes_, label in ((1 << 40, "2^40"), (1 << 63, "2^63"), (LAST, "2^64-1")):
        add(f"malloc of {label}", "cudaMalloc", "result", bytes_)
        add(f"driver malloc of {label}", "cuMemAlloc_v2", "result", bytes_)
    add("host malloc of 2^63", "cudaMallocHost", "result", 1 << 63)
    add("host malloc of nothing", "cudaMallocHost", "result", 0)
    add("host malloc to null", "cudaMallocHost", "null", PAGE)
    add("host alloc with flags 0xff00", "cudaHostAlloc", "result", PAGE, 0xFF00)
    add("managed of nothing", "cudaMallocManaged", "result", 0, 1)
    add("managed with flags 0", "cudaMallocManaged", "result", PAGE, 0)
    add("managed to null", "cudaMallocManaged", "null", PAGE, 1)
    add("driver malloc of nothing", "cuMemAlloc_v2", "result", 0)
    add("driver malloc to null", "cuMemAlloc_v2", "null", PAGE)
    add("driver host malloc to null", "cuMemAllocHost_v2", "null", PAGE)
    add("driver host malloc of nothing", "cuMemAllocHost_v2", "result", 0)
    add("driver host alloc with flags 0xff00", "cuMemHostAlloc", "result", PAGE, 0xFF00)
    for bad in ("null", "freed", "host", "unmapped", "device+512", "pinned", "wild"):
        add(f"free of {bad}", "cudaFree", bad)
        add(f"driver free of {bad}", "cuMemFree_v2", bad)
    for bad in ("null", "host", "device", "unmapped", "pinned+512", "managed"):
        add(f"host free of {bad}", "cudaFreeHost", bad)
        add(f"driver host free of {bad}", "cuMemFreeHost", bad)
    add("register null", "cudaHostRegister", "null", PAGE, 0)
    add("register nothing", "cudaHostRegister", "host", 0, 0)
    add("register unmapped", "cudaHostRegister", "unmapped", PAGE, 0)
    add("register pinned", "cudaHostRegister", "pinned", PAGE, 0)
    add("register device", "cudaHostRegister", "device", PAGE, 0)
    add("register flags 0xff00", "cudaHostRegister", "host", PAGE, 0xFF00)
    add("register again", "cudaHostRegister", "registered", MIB, 0)
    add("register a part again", "cudaHostRegister", "registered+4096", PAGE, 0)
    add("unregister registered", "cudaHostUnregister", "registered")
    add("unregister inside", "cudaHostUnregister", "registered+4096")
    add("free of registered", "cudaFree", "registered")
    add("host free of registered", "cudaFreeHost", "registered")
    add("memset of registered", "cudaMemset", "registered", 1, PAGE)
    add("h2d past registered", "cudaMemcpy", "device", "registered+1048575", 2, H2D)
    add("d2d from registered", "cudaMemcpy", "device", "registered", PAGE, D2D)
    add("flags of registered", "cudaHostGetFlags", "result", "registered")
    add("device pointer of registered", "cudaHostGetDevicePointer", "result", "registered", 0)
    add("attributes of registered", "cudaPointerGetAttributes", "result", "registered")
    add("unregister null", "cudaHostUnregister", "null")
    add("unregister host", "cudaHostUnregister", "host")
    add("unregister pinned", "cudaHostUnregister", "pinned")
    add("device pointer of host", "cudaHostGetDevicePointer", "result", "host", 0)
    add("device pointer of null", "cudaHostGetDevicePointer", "result", "null", 0)
    add("device pointer to null", "cudaHostGetDevicePointer", "null", "pinned", 0)
    add("device pointer of pinned", "cudaHostGetDevicePointer", "result", "pinned", 0)
    add("device pointer, flags 7", "cudaHostGetDevicePointer", "result", "pinned", 7)
    add("driver device pointer of host", "cuMemHostGetDevicePointer_v2", "result", "host", 0)
    add("flags of host", "cudaHostGetFlags", "result", "host")
    add("flags of pinned", "cudaHostGetFlags", "result", "pinned")
    add("flags of device", "cudaHostGetFlags", "result", "device")
    add("flags to null", "cudaHostGetFlags", "null", "pinned")
    add("attributes to null", "cudaPointerGetAttributes", "null", "device")
    add("attributes of null", "cudaPointerGetAttributes", "result", "null")
    add("attributes of freed", "cudaPointerGetAttributes", "result", "freed")
    add("memory info to null", "cudaMemGetInfo", "null", "null")
    add("driver memory info to null", "cuMemGetInfo_v2", "null", "null")
    add("set device 99", "cudaSetDevice", 99)
    add("set device -1", "cudaSetDevice", -1)
    add("range of host", "cuMemGetAddressRange_v2", "result", "result+8", "host")
    add("range of freed", "cuMemGetAddressRange_v2", "result", "result+8", "freed")
    add("range of device", "cuMemGetAddressRange_v2", "result", "result+8", "device+100")
    add("attribute of host", "cuPointerGetAttribute", "result", 2, "host")
    add("attribute of freed", "cuPointerGetAttribute", "result", 2, "freed")
    add("attribute 999", "cuPointerGetAttribute", "result", 999, "device")
    add("attribute to null", "cuPointerGetAttribute", "null", 2, "device")
    names = [name for name, _, _ in cases]
    assert len(names) == len(set(names)), [name for name in names if names.count(name) > 1]
    return cases


CASES = _cases()


class Memory:
    """Memory of all kinds, good and bad, by name."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_uint64
        libc.mmap.argtypes = [ctypes.c_uint64, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        libc.munmap.argtypes = [ctypes.c_uint64, ctypes.c_size_t]
        libc.mprotect.argtypes = [ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int]
        private, both = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE
        host = libc.mmap(0, MIB + 16 * PAGE, both, private, -1, 0)
        libc.mprotect(host + MIB, 16 * PAGE, 0)
        self._result = ctypes.create_string_buffer(256)
        self.places = {
            "null": 0,
            "wild": WILD,
            "not_canonical": NOT_CANONICAL,
            "last": LAST,
            "host": host,
            "host4": libc.mmap(0, 4 * MIB, both, private, -1, 0),
            "guard": host + MIB,
            "readonly": libc.mmap(0, MIB, mmap.PROT_READ, private, -1, 0),
            "none": libc.mmap(0, MIB, 0, private, -1, 0),
            "device": self._new("cudaMalloc", 4 * MIB),
            "other": self._new("cudaMalloc", 4 * MIB),
            "small": self._new("cudaMalloc", PAGE),
            "pinned": self._new("cudaMallocHost", MIB),
            "managed": self._new("cudaMallocManaged", MIB, 1),
            "registered": libc.mmap(0, MIB, both, private, -1, 0),
            "result": ctypes.addressof(self._result),
        }
        self.places["beyond"] = self.places["device"] + (1 << 40)
        runtime.cudaHostRegister(ctypes.c_uint64(self.places["registered"]), MIB, 0)
        # A copy each way, so that nothing is allocated on the host after this.
        device, host4 = (ctypes.c_uint64(self.places[name]) for name in ("device", "host4"))
        runtime.cudaMemcpy(device, host4, ctypes.c_size_t(MIB), H2D)
        runtime.cudaMemcpy(host4, device, ctypes.c_size_t(MIB), D2H)
        # Freed last: nothing else lies there.
        self.places["freed"] = self._new("cudaMalloc", 64 * MIB)
        runtime.cudaFree(ctypes.c_uint64(self.places["freed"]))
        # Far from where the system would put anything.
        self.places["unmapped"] = libc.mmap(0x1000_0000_0000, MIB, 0, private, -1, 0)
        libc.munmap(self.places["unmapped"], MIB)

    def _new(self, function: str, size: int, *more: int) -> int:
        addr = ctypes.c_uint64()
        code = getattr(self._runtime, function)(ctypes.byref(addr), ctypes.c_size_t(size), *more)
        if code:
            raise RuntimeError(f"{function} of {size} bytes: error {code}")
        return addr.value

    def address(self, argument: Any) -> int:
        if not isinstance(argument, str):
            return int(argument)
        for sign in "+-":
            if sign in argument:
                name, distance = argument.split(sign)
                return self.places[name] + int(sign + distance)
        return self.places[argument]


def make(runtime: Any, driver: Any, case: tuple[str, str, Any]) -> dict[str, int]:
    """One call: its code, the last error after it, and whether the GPU can still be used."""
    runtime.cudaGetLastError()
    memory = Memory(runtime)
    _, name, arguments = case
    function = getattr(runtime if name.startswith("cuda") else driver, name)
    kinds = SIGNATURES[name]
    values = [TYPES[kind](memory.address(a)) for kind, a in zip(kinds, arguments, strict=True)]
    code = function(*values)
    last = runtime.cudaGetLastError()
    waited = runtime.cudaDeviceSynchronize()
    again = runtime.cudaGetLastError()
    device = ctypes.c_uint64(memory.places["device"])
    usable = runtime.cudaMemset(device, 0, ctypes.c_size_t(16)) or runtime.cudaDeviceSynchronize()
    return {"code": code, "last": last, "sync": waited, "last_after_sync": again, "later": usable}


def libraries() -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """The real runtime and driver."""
    folder = Path(sysconfig.get_path("purelib"), "nvidia")
    found = sorted(folder.glob("**/libcudart.so.*"))
    runtime = ctypes.CDLL(str(found[0]) if found else "libcudart.so.13")
    return runtime, ctypes.CDLL("libcuda.so.1")


def _record(first: int, end: int) -> list[dict[str, Any]]:
    """The answers to the calls from `first` to `end`: a new process wherever one ended."""
    answers: list[dict[str, Any]] = []
    while first + len(answers) < end:
        start = first + len(answers)
        command = [sys.executable, __file__, "--from", str(start), "--to", str(end)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            text, status = done.stdout, done.returncode
        except subprocess.TimeoutExpired as error:
            text, status = (error.stdout or b"").decode(), None
        lines = text.splitlines()
        answers += [json.loads(line) for line in lines]
        if status is None:
            answers.append({"hangs": True})
        elif status < 0:
            answers.append({"signal": -status})
        elif not lines:
            answers.append({"failed": done.stderr[-300:]})
    return answers[: end - first]


def _short(answer: dict[str, Any]) -> dict[str, Any]:
    """What the test needs: a signal, or the code and an error that came after a success."""
    kept = {key: answer[key] for key in ("signal", "hangs", "failed", "code") if key in answer}
    return kept | ({"sync": answer["sync"]} if answer.get("sync") else {})


def _make_some(first: int, end: int) -> None:
    """Prints the answers, up to the first call after which the GPU cannot be used."""
    runtime, driver = libraries()
    for case in CASES[first:end]:
        answer = make(runtime, driver, case)
        print(json.dumps(answer), flush=True)
        if answer["later"] or answer["sync"]:
            break


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--from", type=int, dest="first")
    parser.add_argument("--to", type=int, dest="end")
    parser.add_argument("--record")
    parser.add_argument("--workers", type=int, default=8)
    options = parser.parse_args()
    if options.first is not None:
        _make_some(options.first, options.end)
        return
    each = -(-len(CASES) // options.workers)
    starts = range(0, len(CASES), each)
    with ThreadPoolExecutor(options.workers) as pool:
        parts = pool.map(_record, starts, [min(start + each, len(CASES)) for start in starts])
        answers = [answer for part in parts for answer in part]
    named = zip(CASES, map(_short, answers), strict=True)
    lines = [f" {json.dumps(case[0])}: {json.dumps(answer)}" for case, answer in named]
    Path(options.record).write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(CASES)} calls, {sum('code' in answer for answer in answers)} answered")


if __name__ == "__main__":
    main()
