"""A wheel with an unwinder of its own, or without a package, is refused."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest
from check_wheel import PACKAGES, main


def wheel(folder: Path, *libraries: str, packages: tuple[str, ...] = PACKAGES) -> str:
    """A wheel with packages, whose extension is linked with these libraries."""
    extension = folder / "_core.abi3.so"
    link = ["-x", "c", "/dev/null", "-x", "none", "-Wl,--no-as-needed", *libraries]
    subprocess.run(["cc", "-shared", "-nostdlib", "-o", extension, *link], check=True)
    path = folder / "floodmark-0-cp310-abi3-linux.whl"
    with zipfile.ZipFile(path, "w") as files:
        files.write(extension, "floodmark/_core.abi3.so")
        write_packages(files, packages)
    return str(path)


def write_packages(files: zipfile.ZipFile, packages: tuple[str, ...]) -> None:
    for package in packages:
        files.writestr(f"{package}/__init__.py", "")
        files.writestr(f"{package}/py.typed", "")


def test_a_wheel_that_unwinds_with_the_system_passes(tmp_path: Path) -> None:
    assert main([wheel(tmp_path, "-l:libgcc_s.so.1")]) == 0


def test_a_wheel_with_an_unwinder_of_its_own_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([wheel(tmp_path)]) == 1
    assert "has an unwinder of its own" in capsys.readouterr().err


def test_a_wheel_without_an_extension_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "empty.whl"
    with zipfile.ZipFile(path, "w") as files:
        write_packages(files, PACKAGES)
    assert main([str(path)]) == 1
    assert "has no extension" in capsys.readouterr().err


def test_a_wheel_without_the_package_beside_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([wheel(tmp_path, "-l:libgcc_s.so.1", packages=("floodmark",))]) == 1
    found = capsys.readouterr().err
    assert "lacks `floodmark_compat` or its types" in found
    assert "hint" not in found
