"""`floodmark doctor` and `--version`: what is found, with torch and without it."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import pytest
from support.answer_schema import check_answer
from support.programs import Programs

import floodmark
from floodmark.doctor.trials import cuda_warning

TORCH = importlib.metadata.version("torch")


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> Programs:
    return Programs(tmp_path_factory.mktemp("home") / "work folder")


@pytest.fixture(scope="module")
def answer(programs) -> dict:
    """What is found here, in a home folder of its own; a launcher's variables do not matter."""
    programs.folder.mkdir()
    home = {"HOME": str(programs.folder.parent), "RANK": "3", "WORLD_SIZE": "8"}
    done = programs.floodmark("doctor", "--json", env=home)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def without_torch(tmp_path_factory) -> dict[str, str]:
    """An environment that has floodmark alone: for `python -S`."""
    folder = tmp_path_factory.mktemp("packages")
    (folder / "floodmark").symlink_to(Path(floodmark.__file__).parent)
    return {"PYTHONPATH": str(folder)}


def results(answer: dict) -> dict[str, tuple[str, str]]:
    return {check["name"]: (check["status"], check["result"]) for check in answer["checks"]}


def test_the_answer_is_that_of_the_schema(answer):
    check_answer("doctor", answer)


def test_a_recording_and_an_estimate_work_here(answer):
    found = results(answer)
    assert answer["can_record"]
    assert answer["can_estimate"]
    assert found["Recording"][0] == "ok"
    assert found["Call stacks"] == ("ok", "read from Python's frames without the GIL")
    assert found["Simulated GPU"][0] == "ok"
    assert found["torch"] == ("ok", TORCH)
    assert f"{floodmark.__version__}, " in found["floodmark"][1]


def test_the_hint_about_gpus_is_torchs_warning_about_cuda():
    numpy = (
        "/torch/_subclasses/functional_tensor.py:307: UserWarning: Failed to initialize NumPy: No "
        "module named 'numpy' (Triggered internally at /pytorch/tensor_numpy.cpp:84.)\n"
        '  cpu = _conversion_method_template(device=torch.device("cpu"))\n'
    )
    assert cuda_warning(numpy) is None
    driver = (
        "/torch/cuda/__init__.py:180: UserWarning: CUDA initialization: The NVIDIA driver on your "
        "system is too old (found version 11040). (Triggered internally at /c10/CUDA.cpp:109.)\n"
        "  return torch._C._cuda_getDeviceCount() > 0\n"
    )
    assert cuda_warning(numpy + driver) == (
        "CUDA initialization: The NVIDIA driver on your system is too old (found version 11040)."
    )


def test_the_home_folder_is_not_shown(answer, programs):
    assert results(answer)["Current folder"][1].startswith("~/work folder: writable, ")
    assert str(programs.folder.parent) not in json.dumps(answer)


def test_nothing_stays_behind(answer, programs):
    assert list(programs.folder.iterdir()) == []


def test_without_torch_recording_cannot_work(programs, without_torch, answer):
    done = programs.python("-S", "-m", "floodmark", "doctor", env=without_torch)
    assert done.returncode == 1
    rows = {line.split("  ")[0]: line.split() for line in done.stdout.splitlines() if line}
    assert rows["torch"][1:4] == ["FAILED", "not", "installed"]
    assert "hint: `pip install torch`" in done.stdout
    for name in ("Recording", "Simulated GPU"):
        assert "not tried (torch: not installed)" in " ".join(rows[name])
    assert "Recordings do NOT work; estimates on a simulated GPU do NOT work" in done.stdout
    assert done.stderr == "error: recording does not work in this environment\n"


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    from floodmark.doctor import environment

    check = environment.folder("Current folder", tmp_path / "missing")
    assert check.status == "failed"
    assert check.result == f"{tmp_path / 'missing'}: No such file or directory"


def test_the_version_names_torch_and_does_not_import_it(programs, answer, without_torch):
    done = programs.python("-X", "importtime", "-m", "floodmark", "--version")
    assert done.returncode == 0
    assert done.stdout == f"floodmark {floodmark.__version__} (torch {TORCH})\n"
    modules = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "floodmark._core" in modules
    assert "torch" not in modules
    done = programs.python("-S", "-m", "floodmark", "--version", env=without_torch)
    assert done.stdout == f"floodmark {floodmark.__version__} (torch is not installed)\n"
