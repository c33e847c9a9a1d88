"""The tracker for accelerate, in a loop of accelerate's, on a GPU that is not there."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest
from phantoms import needs_cuda_build

import floodmark

pytestmark = [
    needs_cuda_build,
    pytest.mark.skipif(not find_spec("accelerate"), reason="needs accelerate"),
]

PROGRAM = """
    import json
    import floodmark

    with floodmark.phantom("h200"):
        import torch
    from accelerate import Accelerator
    from accelerate.tracking import GeneralTracker
    from floodmark.integrations.accelerate import FloodmarkTracker

    class Others(GeneralTracker):
        name = "others"
        requires_logging_directory = False
        tracker = None

        def __init__(self):
            super().__init__()
            self.values = []

        def log(self, values, step=None, **_):
            self.values.append(dict(values))

    def counters():
        found = [
            torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated(),
            torch.cuda.max_memory_reserved(), torch.cuda.memory_reserved(),
        ]
        torch.cuda.reset_peak_memory_stats()
        return found

    memory, others = FloodmarkTracker("run/memory.flood"), Others()
    accelerator = Accelerator(log_with=[memory, others], gradient_accumulation_steps=2)
    accelerator.init_trackers("one", config={"width": 512})
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 8))
    optimizer = torch.optim.AdamW(model.parameters())
    rows = torch.utils.data.TensorDataset(torch.randn(64, 256))
    data = torch.utils.data.DataLoader(rows, batch_size=8)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    torch.cuda.reset_peak_memory_stats()
    found = {"steps": []}
    for number, (batch,) in enumerate(data):
        with accelerator.accumulate(model):
            accelerator.backward(model(batch.repeat(256 * (number + 1), 1)).sum())
            optimizer.step()
            if accelerator.sync_gradients:
                found["steps"].append(counters())
                step = number // 2
                accelerator.log({"number": number, **memory.metrics()}, step=step)
            optimizer.zero_grad()
    accelerator.end_training()
    found["others"] = others.values
    found["is_over"] = not floodmark.is_recording()
    found["peak"] = memory.tracker.peak("cuda:0").by_line().allocated

    alone = FloodmarkTracker("alone/memory.flood", summary=False)
    accelerator = Accelerator(log_with=[alone])
    accelerator.init_trackers("two")
    found["alone"] = []
    counters()
    for number in range(3):
        with torch.no_grad():
            model(torch.randn(64 * (3 - number), 256, device="cuda"))
        found["alone"].append(counters())
        accelerator.log({}, step=number)
    accelerator.end_training()
    print(json.dumps(found))
"""

NAMES = ("peak", "allocated", "reserved_peak", "reserved")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    from programs import Programs

    programs = Programs(tmp_path_factory.mktemp("accelerate"))
    result = programs.run(PROGRAM)
    return programs.folder, json.loads(result.stdout.splitlines()[-1]), result.stderr


def lines(folder):
    return [json.loads(line) for line in (folder / "memory.jsonl").read_text().splitlines()]


def figures(metrics):
    return [metrics[f"memory/cuda0/{name}"] for name in NAMES]


def test_every_step_is_what_torch_counts(done):
    folder, found, _ = done
    config, *steps = lines(folder / "run")
    assert config == {"config": {"width": 512}}
    assert [step["step"] for step in steps] == [0, 1, 2, 3]
    # Between a step and the next one, `zero_grad` and the loop's own lines belong to the next.
    assert [figures(step["memory"]) for step in steps] == found["steps"]
    assert len({peak for peak, *_ in found["steps"]}) == 4


def test_other_trackers_get_the_same_where_the_program_says_so(done):
    _, found, _ = done
    assert [figures(values) for values in found["others"]] == found["steps"]
    assert [values["number"] for values in found["others"]] == [1, 3, 5, 7]


def test_the_recording_ends_with_the_training_and_is_summed_up(done):
    folder, found, said = done
    trace = floodmark.Trace.open(folder / "run" / "memory.flood")
    assert found["is_over"]
    assert trace.summary()["steps"] == 4
    assert found["peak"] == max(peak for peak, *_ in found["steps"])
    assert str(trace).strip() in said


def test_without_an_optimizer_each_log_ends_a_step(done):
    folder, found, _ = done
    assert [figures(line["memory"])[:2] for line in lines(folder / "alone")] == [
        row[:2] for row in found["alone"]
    ]
    assert floodmark.Trace.open(folder / "alone" / "memory.flood").summary()["steps"] == 3
