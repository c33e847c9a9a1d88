"""Processes in another PID namespace: their numbers are not those of this one."""

from __future__ import annotations

import shutil
import subprocess

import pytest

#: The program that follows is process 1 of a namespace of its own.
IN_OTHER_NAMESPACE = ["unshare", "--pid", "--fork", "--mount-proc"]


def _is_permitted() -> bool:
    if shutil.which("unshare") is None:
        return False
    done = subprocess.run([*IN_OTHER_NAMESPACE, "true"], capture_output=True)
    return done.returncode == 0


needs_namespaces = pytest.mark.skipif(
    not _is_permitted(), reason="needs the right to make a PID namespace"
)
