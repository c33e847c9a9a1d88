"""The callback for the `Trainer` of transformers, in its own loop, on a GPU that is not there."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest
from phantoms import needs_cuda_build

import floodmark

pytestmark = [
    needs_cuda_build,
    pytest.mark.skipif(not find_spec("transformers"), reason="needs transformers"),
    pytest.mark.skipif(not find_spec("accelerate"), reason="its Trainer needs accelerate"),
]

PROGRAM = """
    import json, sys
    import floodmark

    with floodmark.phantom("h200"):
        import torch
    from transformers import GPT2Config, GPT2LMHeadModel
    from transformers import Trainer, TrainerCallback, TrainingArguments
    from floodmark.integrations.transformers import FloodmarkCallback

    def model():
        return GPT2LMHeadModel(
            GPT2Config(n_layer=1, n_head=2, n_embd=64, vocab_size=256, n_positions=64)
        )

    def data(lengths):
        return [{"input_ids": [1] * length, "labels": [1] * length} for length in lengths]

    class Hungry(Trainer):
        def training_step(self, *args, **kwargs):
            if self.state.global_step == 1:
                torch.empty(1 << 42, dtype=torch.uint8, device="cuda")
            return super().training_step(*args, **kwargs)

    class Counters(TrainerCallback):
        "torch's own counters, reset when a step ends."

        def __init__(self):
            self.steps, self.batches, self.reported = [], [], []

        def on_step_begin(self, args, state, control, **_):
            if not self.steps:
                torch.cuda.reset_peak_memory_stats()

        def on_step_end(self, args, state, control, **_):
            self.steps.append(counters())

        def on_prediction_step(self, args, state, control, **_):
            self.batches.append(counters())

        def on_log(self, args, state, control, logs, **_):
            self.reported.append(dict(logs))

    def counters():
        found = [
            torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated(),
            torch.cuda.max_memory_reserved(), torch.cuda.memory_reserved(),
        ]
        torch.cuda.reset_peak_memory_stats()
        return found

    def trainer(name, callbacks, kind=Trainer, **options):
        arguments = TrainingArguments(
            output_dir=name, per_device_train_batch_size=1, per_device_eval_batch_size=1,
            max_steps=4, logging_steps=1, report_to=[], disable_tqdm=True, save_strategy="no",
            train_sampling_strategy="sequential", **options,
        )
        return kind(
            model=model(), args=arguments, callbacks=callbacks,
            train_dataset=data([8, 16, 24, 32]), eval_dataset=data([8, 64]),
        )

    found = {}
    counted = Counters()
    one = trainer("one", [counted], eval_strategy="steps", eval_steps=4)
    FloodmarkCallback().attach(one)
    one.train()
    found["one"] = {
        "steps": counted.steps, "batches": counted.batches, "history": one.state.log_history,
        "reported": counted.reported,
    }

    counted = Counters()
    callbacks = [FloodmarkCallback(summary=False), counted]
    rare = trainer("rare", callbacks, gradient_accumulation_steps=2)
    rare.args.logging_steps = rare.state.logging_steps = 2
    rare.train()
    found["rare"] = {"steps": counted.steps, "history": rare.state.log_history}

    some = trainer("some", [FloodmarkCallback(steps=(1, 3), summary=False)])
    some.train()
    found["some"] = some.state.log_history

    with floodmark.trace("alone.flood"):
        trainer("alone", [FloodmarkCallback()]).evaluate()

    print(json.dumps(found), flush=True)
    trainer("hungry", [FloodmarkCallback()], Hungry).train()
"""

NAMES = ("peak", "allocated", "reserved_peak", "reserved")


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    from programs import Programs

    programs = Programs(tmp_path_factory.mktemp("transformers"))
    result = programs.python(programs.write(PROGRAM))
    lines = [line for line in result.stdout.splitlines() if line.startswith('{"one"')]
    assert lines, result.stderr
    return programs.folder, json.loads(lines[-1]), result


def figures(entry, prefix=""):
    return [entry[f"{prefix}memory/cuda0/{name}"] for name in NAMES]


def test_every_step_is_what_torch_counts(done):
    _, found, _ = done
    steps = found["one"]["steps"]
    history = [entry for entry in found["one"]["history"] if "loss" in entry]
    assert [figures(entry) for entry in history] == steps
    assert len({peak for peak, *_ in steps}) > 2


def test_reporters_get_what_the_history_gets(done):
    _, found, _ = done
    reported = [entry for entry in found["one"]["reported"] if "loss" in entry]
    assert [figures(entry) for entry in reported] == found["one"]["steps"]


def test_an_evaluation_has_figures_of_its_own(done):
    _, found, _ = done
    (entry,) = [entry for entry in found["one"]["history"] if "eval_loss" in entry]
    assert figures(entry, "eval_")[0] == max(peak for peak, *_ in found["one"]["batches"])
    assert "memory/cuda0/peak" not in entry


def test_between_two_entries_no_peak_is_missed(done):
    _, found, _ = done
    steps = found["rare"]["steps"]
    history = [entry for entry in found["rare"]["history"] if "loss" in entry]
    assert len(steps) == 4
    pairs = [steps[:2], steps[2:]]
    assert [figures(entry)[0] for entry in history] == [max(p[0] for p in pair) for pair in pairs]
    assert [figures(entry)[1] for entry in history] == [pair[-1][1] for pair in pairs]


def test_only_the_steps_that_are_asked_for(done):
    folder, found, _ = done
    history = [entry for entry in found["some"] if "loss" in entry]
    assert ["memory/cuda0/peak" in entry for entry in history] == [False, True, True, False]
    assert floodmark.Trace.open(folder / "some" / "memory.flood").summary()["steps"] == 2


def test_an_evaluation_alone_is_part_of_a_recording_that_runs(done):
    folder, *_ = done
    assert floodmark.Trace.open(folder / "alone.flood").summary()["steps"] == 2


def test_the_end_is_summed_up_and_the_trace_lies_in_the_output(done):
    folder, _, result = done
    trace = floodmark.Trace.open(folder / "one" / "memory.flood")
    assert trace.summary()["steps"] == 6
    assert str(trace).strip() in result.stderr


def test_out_of_memory_is_explained_at_the_end_of_the_program(done):
    folder, _, result = done
    assert result.returncode == 1
    assert floodmark.Trace.open(folder / "hungry" / "memory.flood").oom().requested == 1 << 42
    at = result.stderr.index("OutOfMemoryError")
    assert "Out of memory on cuda:0: 4.000 TiB asked for at program.py" in result.stderr[at:]
    assert not (folder / "hungry" / "memory.flood.journal").exists()
