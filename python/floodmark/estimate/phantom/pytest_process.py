"""The process of one test on a simulated GPU.

Loads the phantom, then runs pytest, before any plugin or conftest can import torch. Sees: the
environment that `pytest_plugin` sets. Talks to: `simulated_gpu`.
"""

from __future__ import annotations

import json
import os
import sys

from floodmark._core import PhantomError
from floodmark.estimate.phantom.simulated_gpu import phantom

#: The variable with the request of `pytest_plugin` as JSON.
VARIABLE = "FLOODMARK_PYTEST_PHANTOM"


def main() -> int:
    """Run pytest with the arguments; returns its exit status."""
    asked = json.loads(os.environ[VARIABLE])
    try:
        with phantom(asked["gpu"], memory=asked["memory"], gpus=asked["gpus"]):
            import pytest

            return int(pytest.main(sys.argv[1:]))
    except PhantomError as error:
        print(error)
        return 1


if __name__ == "__main__":
    sys.exit(main())
