"""The process of one test on a simulated GPU.

Loads the phantom, then runs pytest: no plugin and no conftest can import torch before. Sees: what
`pytest_plugin` put into the environment. Talks to: `simulated_gpu`.
"""

from __future__ import annotations

import json
import os
import sys

from floodmark._core import PhantomError
from floodmark.estimate.phantom.simulated_gpu import phantom

#: Has what `pytest_plugin` asks this process for, as JSON.
VARIABLE = "FLOODMARK_PYTEST_PHANTOM"


def main() -> int:
    """Run pytest with these words; its exit status."""
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
