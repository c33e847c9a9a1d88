"""Every entry point of the simulated GPU, called with null pointers: an error, never a crash."""

from __future__ import annotations

import json
import re

from support.checkout import ROOT
from support.phantoms import needs_cuda_build

pytestmark = needs_cuda_build

SOURCES = ROOT / "crates" / "floodmark-phantom" / "src"

#: How the types of pointers begin; a descriptor of cuDNN is one.
POINTERS = ("*", "OrNull", "ConstOrNull", "Option", "Descriptor")

DEFINITION = re.compile(
    r"#\[crate::entry_point\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\(\w+\))? )?(?:unsafe )?"
    r'extern "C" fn (\w+)\(([^{]*?)\)\s*(?:->\s*([^{]*?))?\s*\{'
)


def entry_points():
    """The functions that take pointers: name, whether each argument is one, which must be there."""
    found = []
    for path in sorted(SOURCES.rglob("*.rs")):
        for name, arguments, result in DEFINITION.findall(path.read_text()):
            kinds = [
                (word.strip(), kind.strip())
                for word, _, kind in (
                    part.partition(":") for part in re.split(r",(?![^\[<(]*[\]>)])", arguments)
                )
                if word.strip()
            ]
            is_pointer = [kind.startswith(POINTERS) for _, kind in kinds]
            must = [kind.startswith("*") and word[0] != "_" for word, kind in kinds]
            if any(is_pointer) and not name.startswith(("cudaPlanted", "floodmark", "_ZN")):
                found.append([name, is_pointer, any(must) and result.strip() == "i32"])
    return found


#: Calls each function with nulls for its pointers, and 0 or 1 for its numbers. Each in a fork.
CALLS = """
    import ctypes, json, os, sys
    import floodmark
    from floodmark import _core

    with floodmark.phantom("h100"):
        pass
    process = ctypes.CDLL(None)
    found = {}
    for name, is_pointer, _ in json.load(sys.stdin):
        function = getattr(process, name)
        function.restype = ctypes.c_int
        for number in (0, 1):
            # More zeros: a struct by value lies behind the arguments.
            words = [ctypes.c_uint64(0 if is_null else number) for is_null in is_pointer]
            words += [ctypes.c_uint64(0)] * 24
            status, written = os.pipe()
            child = os.fork()
            if child == 0:
                os.write(written, str(function(*words)).encode())
                os._exit(0)
            os.close(written)
            _, ended = os.waitpid(child, 0)
            text = os.read(status, 32).decode()
            os.close(status)
            found.setdefault(name, []).append(int(text) if ended == 0 else f"signal {ended}")
    print(json.dumps(found))
"""


def test_a_null_pointer_is_an_error_of_the_library(programs):
    functions = entry_points()
    assert len(functions) > 200
    done = programs.run(CALLS, input=json.dumps(functions))
    found = json.loads(done.stdout)
    crashed = {
        name: codes for name, codes in found.items() if not all(type(c) is int for c in codes)
    }
    assert crashed == {}
    accepted = [name for name, _, must in functions if must and 0 in found[name]]
    assert accepted == [], "these need their pointers"
    expected = {
        "cudaGetDeviceProperties_v2": 1,
        "cudaMalloc": 1,
        "cuGetProcAddress_v2": 1,
        "cuMemCreate": 1,
        "cudnnCreate": 2000,
        "cublasGetVersion_v2": 7,
        "ncclGetVersion": 4,
        "nvmlDeviceGetCount_v2": 2,
    }
    assert {name: found[name] for name in expected} == {n: [c, c] for n, c in expected.items()}
