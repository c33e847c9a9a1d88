"""Settings of torch's caching allocator: `allocator=expandable_segments:True`."""

from __future__ import annotations

import os
import sys

from floodmark import torch_private
from floodmark.changes.change import Change

#: The first is read by every torch, the second by 2.9 and later.
_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


class AllocatorSettings(Change):
    """Adds settings to `PYTORCH_CUDA_ALLOC_CONF`."""

    name = "allocator"

    def prepare_process(self) -> None:
        variable = next((name for name in _VARIABLES if os.environ.get(name)), _VARIABLES[0])
        before = os.environ.get(variable)
        key = self.argument.partition(":")[0].strip()
        if before and key in before:
            self.reason = f"`{variable}` sets `{key}` already"
            return
        self.set_variable(variable, ",".join(filter(None, (before, self.argument))))
        torch = sys.modules.get("torch")
        if torch is not None:
            # It has read the variable already: in a fork of a warm process.
            torch_private.set_allocator_settings(torch, os.environ[variable])
        self.target = "the caching allocator"
        self.patch = (
            "# at the top of the program, before `import torch`\n"
            f"import os\nos.environ[{variable!r}] = {os.environ[variable]!r}\n".replace("'", '"')
        )
