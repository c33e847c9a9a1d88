"""The callback for Lightning, in Lightning's own loops, on a GPU that is not there."""

from __future__ import annotations

import csv
import json
from importlib.util import find_spec

import pytest
from phantoms import needs_cuda_build

import floodmark

PACKAGES = [name for name in ("lightning", "pytorch_lightning") if find_spec(name)]

pytestmark = [
    needs_cuda_build,
    pytest.mark.skipif(not PACKAGES, reason="needs lightning or pytorch_lightning"),
]

PROGRAM = """
    import json, logging, sys, warnings
    import floodmark

    with floodmark.phantom("h200"):
        import torch
    warnings.simplefilter("ignore")
    if sys.argv[1] == "lightning":
        import lightning.pytorch as pl
        from lightning.pytorch.loggers import CSVLogger
    else:
        import pytorch_lightning as pl
        from pytorch_lightning.loggers import CSVLogger
    from floodmark.integrations.lightning import FloodmarkCallback

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(
                torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 16)
            )

        def training_step(self, batch, at):
            # Each step is another size, so that each has another peak.
            return self.layers(batch[0].repeat(128 * (1 + at), 1)).sum()

        def validation_step(self, batch, at):
            self.layers(batch[0].repeat(8, 1))

        def predict_step(self, batch, at):
            return self.layers(batch[0]).shape

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())

    class Hungry(Model):
        def training_step(self, batch, at):
            if at == 1:
                torch.empty(1 << 42, dtype=torch.uint8, device=self.device)
            return super().training_step(batch, at)

    class Counters(pl.Callback):
        "torch's own counters, reset when a step ends. After the callback that is tested."

        def __init__(self):
            self.steps, self.validation = [], 0

        def on_train_start(self, trainer, module):
            self.batches = 0

        def on_train_batch_start(self, *_):
            if not self.steps and not self.batches:
                torch.cuda.reset_peak_memory_stats()

        def on_train_batch_end(self, trainer, *_):
            self.batches += 1
            if self.batches % trainer.accumulate_grad_batches == 0:
                self.steps.append(counters())

        def on_validation_batch_end(self, trainer, *_):
            if not trainer.sanity_checking:
                self.validation = max(self.validation, counters()[0])

    def counters():
        found = [
            torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated(),
            torch.cuda.max_memory_reserved(), torch.cuda.memory_reserved(),
        ]
        torch.cuda.reset_peak_memory_stats()
        return found

    def trainer(name, *callbacks, **options):
        return pl.Trainer(
            accelerator="gpu", devices=1, logger=CSVLogger(".", name=name, version=""),
            callbacks=list(callbacks), enable_progress_bar=False, enable_model_summary=False,
            enable_checkpointing=False, max_epochs=1, default_root_dir=name, **options,
        )

    def data():
        rows = torch.utils.data.TensorDataset(torch.randn(48, 256))
        return torch.utils.data.DataLoader(rows, batch_size=8)

    found = {}
    counted = Counters()
    trainer("fit", FloodmarkCallback(every_n_steps=1), counted).fit(Model(), data(), data())
    found["fit"] = counted.steps
    found["validation"] = counted.validation

    counted = Counters()
    accumulated = FloodmarkCallback(steps=(1, 3), every_n_steps=1, summary=False)
    options = {"accumulate_grad_batches": 2, "limit_train_batches": 6}
    trainer("some", accumulated, counted, **options).fit(Model(), data())
    found["some"] = counted.steps

    trainer("alone", FloodmarkCallback(summary=False)).validate(Model(), data())
    trainer("predicted", FloodmarkCallback(summary=False)).predict(Model(), data())

    try:
        trainer("hungry", FloodmarkCallback()).fit(Hungry(), data())
    except torch.OutOfMemoryError:
        found["hungry"] = floodmark.is_recording()

    class Broken(CSVLogger):
        def log_metrics(self, *_, **__):
            raise OSError("the disk is full")

    broken = trainer("broken", FloodmarkCallback(every_n_steps=1))
    broken.loggers = [Broken(".", name="broken", version="")]
    broken.fit(Model(), data())
    found["broken"] = broken.global_step
    print(json.dumps(found))
"""


@pytest.fixture(scope="module", params=PACKAGES[:1])
def done(request, tmp_path_factory):
    from programs import Programs

    programs = Programs(tmp_path_factory.mktemp("lightning"))
    result = programs.run(PROGRAM, request.param)
    return programs.folder, json.loads(result.stdout.splitlines()[-1]), result.stderr


def logged(folder, name, prefix=""):
    """What the logger got of the first GPU: by step, peak, end, reserved peak, reserved."""
    names = ("peak", "allocated", "reserved_peak", "reserved")
    columns = [f"{prefix}memory/cuda0/{key}" for key in names]
    with open(folder / name / "metrics.csv") as file:
        rows = [row for row in csv.DictReader(file) if row.get(columns[0])]
    return {int(row["step"]): [int(row[column]) for column in columns] for row in rows}


def test_every_step_is_what_torch_counts(done):
    folder, found, _ = done
    assert len(found["fit"]) == 6
    assert logged(folder, "fit") == dict(enumerate(found["fit"]))
    assert len({peak for peak, *_ in found["fit"]}) == 6


def test_a_validation_is_one_figure_of_its_own(done):
    folder, found, _ = done
    assert [row[0] for row in logged(folder, "fit", "validation_").values()] == [
        found["validation"]
    ]


def test_only_the_steps_that_are_asked_for_and_whole_ones(done):
    folder, found, _ = done
    assert len(found["some"]) == 3, "six batches, two in a step"
    rows = logged(folder, "some")
    assert set(rows) == {1, 2}
    assert [rows[1][:2], rows[2][:2]] == [row[:2] for row in found["some"][1:]]
    assert floodmark.Trace.open(folder / "some" / "memory.flood").summary()["steps"] == 2


def test_loops_without_an_optimizer_have_steps_too(done):
    folder, *_ = done
    for name in ("alone", "predicted"):
        trace = floodmark.Trace.open(folder / name / "memory.flood")
        assert trace.summary()["steps"] == 6
    assert logged(folder, "alone", "validation_")


def test_the_end_is_summed_up_and_a_trace_is_there(done):
    folder, _, said = done
    trace = floodmark.Trace.open(folder / "fit" / "memory.flood")
    # Two batches of the sanity check, six of the training, six of the validation.
    assert trace.summary()["steps"] == 14
    assert f"recorded into {folder / 'fit' / 'memory.flood'}" in said
    assert str(trace).strip() in said
    categories = {row["category"] for row in trace.peak("cuda:0").by_category()}
    assert {"parameter", "optimizer state"} <= categories


def test_out_of_memory_is_explained_and_reaches_the_program(done):
    folder, found, said = done
    assert found["hungry"] is False, "raised, and the recording is over"
    oom = floodmark.Trace.open(folder / "hungry" / "memory.flood").oom()
    assert oom.requested == 1 << 42
    assert "Out of memory on cuda:0: 4.000 TiB asked for at program.py" in said


def test_a_logger_that_fails_stops_no_training(done):
    _, found, said = done
    assert found["broken"] == 6
    assert said.count("the disk is full") == 1
