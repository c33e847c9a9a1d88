"""The GPUs of a simulated machine: those that the program sees, and how they reach each other."""

from __future__ import annotations

import json

import pytest
from support.phantoms import needs_cuda_build

pytestmark = needs_cuda_build

#: What every program begins with, and how it gives back what it found.
BEGINNING = """
    import ctypes, json, os, subprocess, sys
    import torch

    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    nvml.nvmlInit_v2()

    def device_of(index):
        handle = ctypes.c_uint64()
        assert nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0
        return handle

    def number(function, *words):
        found = ctypes.c_uint(99)
        status = getattr(nvml, function)(*words, ctypes.byref(found))
        return found.value if status == 0 else f"error {status}"

    def uuid_of(index):
        text = ctypes.create_string_buffer(96)
        assert nvml.nvmlDeviceGetUUID(device_of(index), text, 96) == 0
        return text.value.decode()

    def write_facts(**facts):
        with open("facts.json", "w") as file:
            json.dump(facts, file)
"""


def facts_of(programs, body, *options):
    """What a program on four GPUs wrote."""
    programs.write(BEGINNING + body, "program.py")
    options = ("--json", "--gpus", "4", "-o", "a.flood", *options)
    done = programs.floodmark("estimate", *options, "program.py")
    assert done.returncode == 0, done.stderr
    return json.loads((programs.folder / "facts.json").read_text()), json.loads(done.stdout)


CHOSEN = """
    # As Ray does: after the imports.
    os.environ["CUDA_VISIBLE_DEVICES"] = f"{uuid_of(3)},{uuid_of(1)}"
    count = torch.cuda.device_count()
    torch.zeros(1 << 20, device="cuda:0")
    names = ["GPU-" + str(torch.cuda.get_device_properties(one).uuid) for one in range(count)]
    try:
        torch.zeros(1, device="cuda:2")
    except RuntimeError as error:
        refused = "invalid device ordinal" in str(error)

    code = "import os, torch; print(os.environ['CUDA_VISIBLE_DEVICES'], torch.cuda.device_count())"
    children = []
    for text in ("", "2", uuid_of(1), "0,9,1", "NoDevFiles"):
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": text}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        children.append(done.stdout.split())
    write_facts(
        count=count,
        all=number("nvmlDeviceGetCount_v2"),
        names=names == [uuid_of(3), uuid_of(1)],
        refused=refused,
        children=children,
        last=uuid_of(1),
    )
"""


def test_a_program_sees_the_gpus_that_it_chooses(programs):
    facts, found = facts_of(programs, CHOSEN)
    assert (facts["count"], facts["all"]) == (2, 4), "NVML sees all"
    assert facts["names"]
    assert facts["refused"]
    expected = [["0"], ["2", "1"], [facts["last"], "1"], ["0,9,1", "1"], ["NoDevFiles", "0"]]
    assert facts["children"] == expected
    [device] = found["devices"]
    assert (device["device"], device["gpu"]) == ("cuda:0", 3)


LINKS = """
    one, other = device_of(0), device_of(3)
    torch.zeros(1, device="cuda")
    handle = ctypes.c_uint64()
    found = nvml.nvmlDeviceGetHandleByUUID(uuid_of(3).encode(), ctypes.byref(handle))
    write_facts(
        p2p=[number("nvmlDeviceGetP2PStatus", one, other, which) for which in range(4)],
        links=[number("nvmlDeviceGetNvLinkState", one, link) for link in (0, 17, 18)],
        level=number("nvmlDeviceGetTopologyCommonAncestor", one, other),
        by_uuid=[found, handle.value == other.value],
        bad=number("nvmlDeviceGetP2PStatus", one, ctypes.c_uint64(7), 0),
        peers=torch.cuda.can_device_access_peer(0, 3),
        architecture=number("nvmlDeviceGetArchitecture", one),
    )
"""


@pytest.mark.parametrize(
    ("gpu", "p2p", "links", "architecture"),
    [
        ("h100", [0, 0, 0, 0], [1, 1, "error 2"], 9),
        ("l4", [0, 0, 5, 5], ["error 3"] * 3, 8),
    ],
)
def test_nvml_says_how_gpus_reach_each_other(programs, gpu, p2p, links, architecture):
    facts, _ = facts_of(programs, LINKS, "--gpu", gpu)
    assert (facts["p2p"], facts["links"]) == (p2p, links)
    assert (facts["level"], facts["by_uuid"], facts["bad"]) == (40, [0, True], "error 2")
    assert (facts["peers"], facts["architecture"]) == (True, architecture)
