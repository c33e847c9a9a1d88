"""Which names `check_private_names` takes for torch's private ones, and where they may be."""

from __future__ import annotations

import pytest
from check_private_names import HOME, problems

ELSEWHERE = "python/floodmark/recording/steps.py"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("depth = torch._C", "torch._C"),
        ("self._torch = torch; self._torch._dynamo", "self._torch._dynamo"),
        ("groups = c10d._world", "c10d._world"),
        ("text = torch.__version__", "torch.__version__"),
        ("from torch._subclasses import FakeTensor", "torch._subclasses.FakeTensor"),
        ("from torch.utils import _pytree", "torch.utils._pytree"),
        ("import torch._inductor.config", "torch._inductor.config"),
        ("ask = getattr(torch.cuda, '_lazy_call', None)", "torch.cuda._lazy_call"),
        ("replace(module, '_apply', applied)", "module._apply"),
        ("bindings = sys.modules['torch._C._distributed_c10d']", "torch._C._distributed_c10d"),
        ("place = tensor.untyped_storage()._cdata", "_cdata"),
    ],
)
def test_a_private_name_is_found_with_its_line(text, name):
    planted = f"import torch\n{text}\n"
    (problem,) = problems({ELSEWHERE: planted})
    assert problem.startswith(f"{ELSEWHERE}:2: `{name}` is private")
    assert problems({HOME: planted}) == []
    assert problems({HOME.replace(".py", "_distributed.py"): planted}) == []


@pytest.mark.parametrize(
    "text",
    [
        "count = torch.ops.aten._unique2.default",
        "import os; os._exit(1)",
        "class A:\n    def __init__(self): self._own = 1\n    def f(self, a): return a._own",
        "'Talks to `torch._C`.'",
        "'torch._C'",
        "names = torch.__name__, torch.__file__",
        "from torch.utils import data",
    ],
)
def test_operators_pythons_names_and_our_own_are_fine(text):
    assert problems({ELSEWHERE: text}) == []


def test_a_name_of_another_library_is_allowed_in_its_file_alone():
    text = "tensor._transpose_invalid = True"
    assert problems({"python/floodmark/plugins/_te_casts.py": text}) == []
    assert len(problems({ELSEWHERE: text})) == 1
