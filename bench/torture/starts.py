"""Part `starts`: recordings begin and end while another thread loads and unloads shared objects.

The objects have thread-local memory, and there are more than 64 of them: the loader's lists grow
meanwhile.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path

from torture.outcome import Outcome

_OBJECTS = 80
_OBJECT = "__thread long number_{0}[64]; long *object_{0}(void) {{ return number_{0}; }}\n"
#: A thread of C: Python would hold its lock while it loads.
_LOADER = """
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_int ends;
static atomic_long loads;
static pthread_t thread;
static char folder[4096];

static void *load(void *unused) {
    void *held[OBJECTS] = {0};
    for (unsigned round = 0; !ends; round++) {
        char name[4200];
        unsigned at = (round * 7) % OBJECTS;
        if (held[at]) { dlclose(held[at]); held[at] = 0; continue; }
        snprintf(name, sizeof name, "%s/object_%u.so", folder, at);
        held[at] = dlopen(name, RTLD_NOW);
        if (held[at]) {
            snprintf(name, sizeof name, "object_%u", at);
            long *(*call)(void) = (long *(*)(void))dlsym(held[at], name);
            if (call) call()[1] = round;
            loads++;
        }
    }
    return unused;
}

void begin(const char *where) {
    snprintf(folder, sizeof folder, "%s", where);
    pthread_create(&thread, 0, load, 0);
}

long end(void) { ends = 1; pthread_join(thread, 0); return loads; }
"""


def _compile(folder: Path) -> ctypes.CDLL:
    flags = ["-shared", "-fPIC", "-O1", "-o"]
    for number in range(_OBJECTS):
        source = folder / f"object_{number}.c"
        source.write_text(_OBJECT.format(number))
        target = folder / f"object_{number}.so"
        subprocess.run(["cc", *flags, str(target), str(source)], check=True)
    source = folder / "loader.c"
    source.write_text(_LOADER.replace("OBJECTS", str(_OBJECTS)))
    target = folder / "loader.so"
    subprocess.run(["cc", *flags, str(target), str(source), "-ldl", "-lpthread"], check=True)
    return ctypes.CDLL(str(target))


def main() -> None:
    """`python -m torture.starts FOLDER COUNT`: the outcome as JSON."""
    import torch

    import floodmark

    torch.set_num_threads(1)
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    outcome = Outcome("starts", faults={"lost events": 0})
    loader = _compile(folder)
    loader.end.restype = ctypes.c_long
    loader.begin(str(folder).encode())
    for number in range(count):
        path = folder / f"{number}.flood"
        floodmark.start(path, devices="cpu")
        kept = torch.empty(100_000 + number, dtype=torch.uint8)
        floodmark.stop()
        outcome.count("recordings")
        rows = floodmark.Trace.open(path).end("cpu").by_tensor(top=None)
        if [row["bytes"] for row in rows] != [kept.numel()] or rows.losses:
            outcome.fault("lost events", f"recording {number}: {list(rows)} {rows.losses}")
    outcome.count("shared objects loaded meanwhile", loader.end())
    print(json.dumps(vars(outcome)))


if __name__ == "__main__":
    main()
