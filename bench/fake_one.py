"""One run for `fake_engine.py`: `python fake_one.py WAY CASE STEPS`.

WAY is `fake` (ours), `plain` (torch's `FakeTensorMode` alone), `memtracker` (torch's `MemTracker`
on it) or `phantom`; CASE a model of `fixtures/zoo`, or `7b` or `70b` for a Llama. Prints one JSON
object: the peak where the way knows it, and each step's seconds, of the clock and of the processor.

torch's own ways get what they need in order to be fair: devices that torch can see, optimizers
that take lists as on a GPU, modules that can be moved, models without the masks of a trace, and
`MemTracker` an answer for what reads values.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from floodmark import _core, estimate
from floodmark.estimate.fake.session import FakeSession

HERE = Path(__file__).resolve().parent
Step = Callable[[], None]


@contextmanager
def phase(_name: str) -> Iterator[None]:
    """The zoo marks its phases, which are not used here."""
    yield


def zoo(name: str) -> tuple[Any, Any, Step]:
    """A model with recordings of an H200, its optimizer if known, and a step."""
    import torch

    sys.path.insert(0, str(HERE.parent / "fixtures" / "zoo"))
    import models

    made: list[Any] = []
    begin = torch.optim.Optimizer.__init__

    def begun(optimizer: Any, *args: Any, **kwargs: Any) -> None:
        made.append(optimizer)
        begin(optimizer, *args, **kwargs)

    torch.optim.Optimizer.__init__ = begun
    try:
        model, step = models.CASES[name]("cuda", phase)
    finally:
        torch.optim.Optimizer.__init__ = begin
    return model, made[0] if made else None, step


def llama(name: str) -> tuple[Any, Any, Step]:
    """A Llama in bfloat16 with AdamW, one sequence of 2,048 tokens."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    sys.path.insert(0, str(HERE / "programs" / "phantom"))
    from llama import SIZES

    config = LlamaConfig(**SIZES[name], max_position_embeddings=8192)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def step() -> None:
        ids = torch.randint(0, config.vocab_size, (1, 2048), device="cuda")
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return model, optimizer, step


def timed(step: Step, steps: int, after: Callable[[int], None] = lambda _: None) -> Any:
    """Each step's seconds."""
    found = []
    for index in range(steps):
        clock, processor = time.perf_counter(), time.process_time()
        step()
        found.append((time.perf_counter() - clock, time.process_time() - processor))
        after(index)
    return found


def ours(engine: str, build: Callable[[], Any], steps: int) -> dict[str, Any]:
    """An estimate. A GPU large enough for all: the peak is the question, not whether it fits."""
    with estimate(engine=engine, gpu="h200", memory="2000GiB") as est:
        _, _, step = build()
        found = timed(step, steps)
        peak = est.level()[1]
    return {"peak": peak, "steps": found}


def fair(fake: Any, stack: ExitStack) -> None:
    """Patch what torch's own fake tensors lack, for the time of the run."""
    import torch
    from torch.optim import optimizer as optimizers
    from torch.utils import _foreach_utils as foreach

    for owner in (optimizers, foreach):
        known = getattr(owner, "_foreach_supported_types", None)
        if isinstance(known, list) and torch._subclasses.FakeTensor not in known:
            known.append(torch._subclasses.FakeTensor)
    converter = fake.fake_tensor_converter
    remember = converter.set_tensor_memo

    def remember_real(tensor: Any, made: Any) -> None:
        if tensor.device.type != "meta":
            remember(tensor, made)

    converter.set_tensor_memo = remember_real
    from transformers.utils import import_utils

    import_utils.is_fake_tensor = lambda _tensor: False
    stack.enter_context(fake)


def read_nothing() -> None:
    """Keep models of transformers from searching for packed sequences, which reads a value."""
    from transformers import masking_utils

    masking_utils.find_packed_sequence_indices = lambda _positions: None


def reading() -> Any:
    """A mode that returns zero for a number that the program reads and torch does not know."""
    import torch
    from torch._subclasses.fake_tensor import DataDependentOutputException
    from torch.utils._python_dispatch import TorchDispatchMode

    class Reads(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):  # type: ignore[no-untyped-def]
            try:
                return func(*args, **kwargs or {})
            except DataDependentOutputException:
                if func is not torch.ops.aten._local_scalar_dense.default:
                    raise
                return 0.0 if args[0].dtype.is_floating_point else 0

    return Reads()


def torchs(way: str, build: Callable[[], Any], steps: int) -> dict[str, Any]:
    """torch's fake tensors, alone or with its tracker of memory."""
    machine = _core.PhantomMachine("h200", memory=2000 << 30, gpus=1, ranks=None, answers=[])
    FakeSession(machine, ())
    import torch
    from torch._subclasses import FakeTensorMode

    with ExitStack() as stack:
        fair(FakeTensorMode(allow_non_fake_inputs=True), stack)
        if way == "plain":
            read_nothing()
        model, optimizer, step = build()
        if way == "plain":
            return {"peak": None, "steps": timed(step, steps)}
        from torch.distributed._tools.mem_tracker import MemTracker

        tracker = MemTracker()
        tracker.track_external(*(one for one in (model, optimizer) if one is not None))
        stack.enter_context(reading())
        stack.enter_context(tracker)
        # It refuses a second call of a model unless it forgets the first.
        found = timed(step, steps, lambda _: tracker.reset_mod_stats())
        peaks = tracker.get_tracker_snapshot("peak")
    peak = peaks[torch.device("cuda", 0)]["Total"]
    return {"peak": int(peak), "steps": found}


def main() -> None:
    """Run it."""
    warnings.simplefilter("ignore")
    way, name, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    build = (lambda: llama(name)) if name in ("7b", "70b") else (lambda: zoo(name))
    try:
        is_ours = way in ("fake", "phantom")
        found = ours(way, build, steps) if is_ours else torchs(way, build, steps)
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        found = {"error": f"{type(error).__name__}: {lines[0][:120]}"}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
